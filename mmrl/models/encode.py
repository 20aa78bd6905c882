"""Vision features: each distinct medium through the tower once, gathered to where its placeholders are.

Transformers takes the result as `mm_encoder_outputs` in the place of pixels. Gradients flow through the gathering, so
a medium that many rows show receives the sum of their gradients.

Shape letters: N patches, K vision tokens, D hidden size of the language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mmrl.data.pixels import pixel_values
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import MediaKind
from mmrl.models.families import FamilyProcessor


@dataclass(frozen=True, slots=True)
class MediumFeatures:
    """What enters the language model for one medium, one row per vision token.

    tokens_KD: the tower's output. deepstack: outputs of inner layers that Qwen3-VL adds to the first decoder layers.
    """

    kind: MediaKind
    tokens_KD: torch.Tensor
    deepstack: tuple[torch.Tensor, ...]


def encode_media(model: Any, media: Sequence[MediaEntry], processor: FamilyProcessor) -> list[MediumFeatures]:
    """Features of every entry, in order. All images go through the tower together, and so do all clips."""
    features: dict[int, MediumFeatures] = {}
    for kind in ("image", "video"):
        indices = [index for index, entry in enumerate(media) if entry.kind == kind]
        if indices:
            encoded = _encode_kind(model, kind, [media[index] for index in indices], processor)
            features.update(zip(indices, encoded, strict=True))
    return [features[index] for index in range(len(media))]


def gather_features(features: Sequence[MediumFeatures], order: Sequence[tuple[int, int, int]]) -> dict[str, Any] | None:
    """The `mm_encoder_outputs` of placeholder runs (medium, first token, length) in token order; None without media.

    A clip of two temporal patches shown once, as Qwen3-VL does: order ((0, 0, 6), (0, 6, 6)).
    """
    outputs: dict[str, Any] = {}
    for kind in ("image", "video"):
        runs = [(features[medium], slice(first, first + length)) for medium, first, length in order]
        runs = [(medium, tokens) for medium, tokens in runs if medium.kind == kind]
        if runs:
            outputs[kind] = _encoder_output(runs)
    return outputs or None


def idle_medium(kind: MediaKind, processor: FamilyProcessor) -> MediaEntry:
    """A black medium of one vision token, which no placeholder shows: it takes a micro-batch through the tower.

    ZeRO's collectives are those of the modules that ran, so that a process whose own micro-batch has no pictures must
    run the tower where the others run it (faults 53 and 54).
    """
    geometry = processor.geometry
    side = geometry.patch_size * geometry.merge_size
    frames_F3HW = torch.zeros(1, 3, side, side, dtype=torch.uint8)
    grid_thw = (1, geometry.merge_size, geometry.merge_size)
    return MediaEntry(f"idle {kind}", kind, frames_F3HW, grid_thw, num_tokens=1, source_size=(side, side))


def idle_term(features: Sequence[MediumFeatures], order: Sequence[tuple[int, int, int]]) -> torch.Tensor | None:
    """Exactly 0, with a graph through the features that no placeholder shows; None where all are shown.

    Added to the hidden states it gives those features a gradient, which is 0 as well.
    """
    shown = {medium for medium, _, _ in order}
    idle = [medium for index, medium in enumerate(features) if index not in shown]
    if not idle:
        return None
    return torch.stack([level.sum() * 0.0 for medium in idle for level in (medium.tokens_KD, *medium.deepstack)]).sum()


def _encode_kind(
    model: Any, kind: str, entries: Sequence[MediaEntry], processor: FamilyProcessor
) -> list[MediumFeatures]:
    base = model.model
    device = next(base.visual.parameters()).device
    pixels_NX = torch.cat([pixel_values(entry, processor.geometry) for entry in entries]).to(device)
    grid_M3 = torch.tensor([entry.grid_thw for entry in entries], device=device)
    encode = base.get_image_features if kind == "image" else base.get_video_features
    output = encode(pixels_NX, grid_M3, return_dict=True)
    levels = getattr(output, "deepstack_features", None) or []
    return [
        MediumFeatures(entries[i].kind, tokens_KD, tuple(level[i] for level in levels))
        for i, tokens_KD in enumerate(output.pooler_output)
    ]


def _encoder_output(runs: Sequence[tuple[MediumFeatures, slice]]) -> Any:
    """Runs of one kind in the form of the tower's own output: one tensor per run, per level."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling
    from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures

    tokens: Any = tuple(medium.tokens_KD[part] for medium, part in runs)
    levels = len(runs[0][0].deepstack)
    if not levels:
        return BaseModelOutputWithPooling(pooler_output=tokens)
    deepstack: Any = [tuple(medium.deepstack[level][part] for medium, part in runs) for level in range(levels)]
    return BaseModelOutputWithDeepstackFeatures(pooler_output=tokens, deepstack_features=deepstack)
