"""Cached features for an evaluation: what a training on frozen vision modules, or `mmrl preprocess`, left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from mmrl.config.schema import ModelSection
from mmrl.data.cache import PixelCache
from mmrl.data.feature_cache import FEATURES, FeatureCache
from mmrl.errors import ConfigError
from mmrl.evaluate.runner import Job
from mmrl.models.families import FamilyProcessor

CacheLevel = Literal["auto", "features", "pixels"]


def check_level(level: CacheLevel, *, engine: str, dp: int) -> None:
    """ConfigError where features are asked for and the model is not in this process."""
    if level == "features" and (engine == "openai" or dp > 1):
        said = "--engine openai" if engine == "openai" else f"--dp {dp}"
        raise ConfigError(
            f"--cache-level features needs the model in this process, but {said} has it in another; leave one out"
        )


def features_for(
    jobs: Sequence[Job], processor: FamilyProcessor, section: ModelSection, *, level: CacheLevel, engine: str
) -> Callable[[Any], None] | None:
    """What is done with the loaded model: its questions then read features. None where they read pixels.

    auto: features that are there are read and none are made; pixels where the cache holds no features at all, and
    where vLLM takes none of the family.
    """
    if level == "pixels" or not jobs or (engine == "vllm" and not processor.geometry.engine_takes_features):
        return None
    pixels = jobs[0].preparer.cache
    assert isinstance(pixels, PixelCache)
    if level == "auto" and not (pixels.folder / FEATURES).is_dir():
        return None

    def read_features(model: Any) -> None:
        from mmrl.models.features import VisionEncoder

        encoder = VisionEncoder.of(model, processor, section, copies=engine == "vllm")  # which keeps no model of ours
        cache = FeatureCache(pixels, encoder, stored=section.dtype, builds=level == "features")
        for job in jobs:
            job.preparer = replace(job.preparer, cache=cache)

    return read_features
