"""Vision features: each distinct medium through the tower once, gathered to where its placeholders are.

Transformers takes the result as `mm_encoder_outputs` in the place of pixels. Gradients flow through the gathering, so
a medium that many rows show receives the sum of their gradients.

Shape letters: N patches, K vision tokens, D hidden size of the language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from mmrl.config.section import BudgetClass
from mmrl.data.budget import plan_image, plan_video
from mmrl.data.rendered import MediaEntry, MediumFeatures
from mmrl.data.sample import MediaKind
from mmrl.models.families import FamilyProcessor


def encode_media(model: Any, media: Sequence[MediaEntry], processor: FamilyProcessor) -> list[MediumFeatures]:
    """Features of every entry, in order, on the model's device: those that the cache has, others by the tower.

    All images that the tower sees go through it together, and so do all clips.
    """
    head = model.lm_head.weight
    features: dict[int, MediumFeatures] = {
        index: _placed(entry.features, device=head.device, dtype=head.dtype)
        for index, entry in enumerate(media)
        if entry.features is not None
    }
    kinds: tuple[MediaKind, ...] = ("image", "video")
    for kind in kinds:
        indices = [index for index, entry in enumerate(media) if entry.kind == kind and index not in features]
        if indices:
            encoded = _encode_kind(model, kind, [media[index] for index in indices], processor)
            features.update(zip(indices, encoded, strict=True))
    return [features[index] for index in range(len(media))]


def gather_features(
    features: Sequence[MediumFeatures], order: Sequence[tuple[int, int, int]], processor: FamilyProcessor
) -> dict[str, Any] | None:
    """The `mm_encoder_outputs` of placeholder runs (medium, first token, length) in token order; None without media.

    A clip of two temporal patches shown once, as Qwen3-VL does: order ((0, 0, 6), (0, 6, 6)).
    """
    by_name: dict[MediaKind, list[_Run]] = {}
    for medium, first, length in order:
        kind = features[medium].kind
        name = processor.family.clip_tokens if kind == "video" else kind
        by_name.setdefault(name, []).append((features[medium], slice(first, first + length)))
    return {name: _encoder_output(name, runs, processor) for name, runs in by_name.items()} or None


def idle_medium(kind: MediaKind, processor: FamilyProcessor) -> MediaEntry:
    """The smallest black medium, which no placeholder shows: it takes a micro-batch through the tower.

    ZeRO's collectives are those of the modules that ran, so that a process whose own micro-batch has no pictures must
    run the tower where the others run it (faults 53 and 54).
    """
    geometry, budget = processor.geometry, BudgetClass(min_pixels=1, max_pixels=1)
    plan = plan_image(1, 1, budget, geometry) if kind == "image" else plan_video(1, 1, 1, budget, geometry)
    black_HW3 = np.zeros((1, 1, 3), dtype=np.uint8)
    if kind == "image":
        frames_F3HW = geometry.image_frames(black_HW3, plan)
    else:
        frames_F3HW = geometry.clip_frame(black_HW3, plan)[None]
    size = (plan.width, plan.height)
    return MediaEntry(f"idle {kind}", kind, frames_F3HW, plan.grid_thw, plan.num_tokens, source_size=size)


def idle_term(features: Sequence[MediumFeatures], order: Sequence[tuple[int, int, int]]) -> torch.Tensor | None:
    """Exactly 0, with a graph through the features that no placeholder shows; None where all are shown.

    Added to the hidden states it gives those features a gradient, which is 0 as well.
    """
    shown = {medium for medium, _, _ in order}
    idle = [medium for index, medium in enumerate(features) if index not in shown]
    if not idle:
        return None
    return torch.stack([level.sum() * 0.0 for medium in idle for level in (medium.tokens_KD, *medium.deepstack)]).sum()


def _placed(features: MediumFeatures, *, device: torch.device, dtype: torch.dtype) -> MediumFeatures:
    tokens_KD, *deepstack = (t.to(device, dtype) for t in (features.tokens_KD, *features.deepstack))
    return MediumFeatures(features.kind, tokens_KD, tuple(deepstack))


def _encode_kind(
    model: Any, kind: MediaKind, entries: Sequence[MediaEntry], processor: FamilyProcessor
) -> list[MediumFeatures]:
    base = model.model
    device = next(base.parameters()).device
    entries = [_on_device(entry, device) for entry in entries]
    inputs = {name: tensor.to(device) for name, tensor in processor.geometry.tower_inputs(entries).items()}
    name = processor.family.clip_tokens if kind == "video" else kind
    encode = base.get_image_features if name == "image" else base.get_video_features
    output = encode(**inputs, return_dict=True)
    levels = getattr(output, "deepstack_features", None) or []
    return [
        MediumFeatures(kind, tokens_KD, tuple(level[i] for level in levels))
        for i, tokens_KD in enumerate(processor.geometry.per_medium(output.pooler_output, entries))
    ]


def _on_device(entry: MediaEntry, device: torch.device) -> MediaEntry:
    """The entry with its frames where the tower is: uint8 travels, normalised and cut into patches it is 4 times that
    and more. From pinned memory it travels while the device computes.
    """
    frames_F3HW = entry.frames_F3HW
    if frames_F3HW.device == device:
        return entry
    return replace(entry, frames_F3HW=frames_F3HW.to(device, non_blocking=frames_F3HW.is_pinned()))


_Run = tuple[MediumFeatures, slice]


def _encoder_output(name: MediaKind, runs: Sequence[_Run], processor: FamilyProcessor) -> Any:
    """Runs of one kind in the form of the tower's own output, per level."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling
    from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures

    tokens = processor.geometry.encoder_output(name, [medium.tokens_KD[part] for medium, part in runs])
    levels = len(runs[0][0].deepstack)
    if not levels:
        return BaseModelOutputWithPooling(pooler_output=tokens)
    deepstack: Any = [tuple(medium.deepstack[level][part] for medium, part in runs) for level in range(levels)]
    return BaseModelOutputWithDeepstackFeatures(pooler_output=tokens, deepstack_features=deepstack)
