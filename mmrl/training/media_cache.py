"""The cache of a run at the level that its configuration and its model allow, and who can read what it returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from mmrl.config.schema import RunConfig
from mmrl.data.cache import PixelCache
from mmrl.data.feature_cache import FeatureCache, MediaCache, StoredType
from mmrl.data.storage import Storage
from mmrl.models.families import FamilyProcessor
from mmrl.models.features import VisionEncoder, check_frozen, trained_vision, weights_fingerprint
from mmrl.training import distributed


def open_cache(config: RunConfig, model: Any, processor: FamilyProcessor) -> MediaCache:
    """Pixels, or features where the vision modules of the loaded model, whose weights are whole, are frozen.

    Raises ConfigError where features are asked for and something between pixels and language model is trained.
    """
    section = config.cache
    pixels = PixelCache(Path(section.dir), on_miss=section.on_miss, verify=section.verify, storage=Storage.of(section))
    if section.level == "features":
        check_frozen(model, processor.family)
    if section.level == "pixels" or trained_vision(model, processor.family):
        return pixels
    # ZeRO-3 cuts the model's own modules apart, which then run on all processes together or not at all.
    encoder = VisionEncoder.of(model, processor, config.model, copies=config.train.zero_stage == 3)
    if encoder.model is not model:
        encoder.model.to(distributed.device())
    return FeatureCache(pixels, encoder, stored=stored_type(config), strict=section.level == "features")


def stored_type(config: RunConfig) -> StoredType:
    """The type features are stored in."""
    return config.model.dtype if config.cache.feature_dtype == "model" else config.cache.feature_dtype


def reads_pixels(cache: MediaCache, model: torch.nn.Module, processor: FamilyProcessor) -> bool:
    """Whether a model beside the policy needs pixels: its vision modules are not those that features were made with."""
    if not isinstance(cache, FeatureCache):
        return False
    return weights_fingerprint(model, processor.family) != cache.encoder.settings["weights"]


def engine_note(config: RunConfig, cache: MediaCache, processor: FamilyProcessor) -> str | None:
    """What is said at start where features stop at the rollout engine; None where they do not."""
    engine = config.rollout.engine
    if not isinstance(cache, FeatureCache) or engine == "hf":
        return None
    if engine == "vllm" and processor.geometry.engine_takes_features:
        return None
    reason = "rollout servers are sent" if engine == "vllm_server" else "vLLM takes no features of the family; it gets"
    return f"cache.level: {reason} pixels ({processor.family.name}); log-prob passes and training read features"
