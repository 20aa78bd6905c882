"""Prompts with media of the families that see tiles, and the trainer's log-probs of completions."""

from __future__ import annotations

from collections.abc import Sequence

from makers.processors import family_processor
from makers.rendered import render_parts
from makers.tiled import clip, picture
from makers.tiny_models import Kind
from makers.vlm import TinyVlm

from mmrl.algorithms.batch import Row
from mmrl.data.rendered import MediaEntry, RenderedPrompt
from mmrl.models.logprobs import token_logprobs
from mmrl.models.packing import pack


def rendered(kind: Kind, *parts: str | MediaEntry) -> RenderedPrompt:
    return render_parts(family_processor(kind), *parts)


def prompts_of(kind: Kind, *, tiles: int = 4) -> list[RenderedPrompt]:
    """Text; a picture in tiles; two, one of them small; for families with clips one, and one with a picture."""
    wide, small = picture(kind, 200, 90, seed=1, tiles=tiles), picture(kind, 40, 40, seed=2, tiles=tiles)
    prompts = [
        rendered(kind, "What colour is the square?"),
        rendered(kind, wide, "left or right"),
        rendered(kind, wide, "and", small, "up"),
    ]
    if family_processor(kind).geometry.reads_clips:
        film = clip(kind, frames=5, seed=3)
        prompts += [rendered(kind, film, "What?"), rendered(kind, film, small, "down")]
    return prompts


def logprobs_of(vlm: TinyVlm, rows: Sequence[Row]) -> list[list[float]]:
    """Per sequence, at the temperature 0.7."""
    micro = pack(rows, vlm.processor)
    options = {"temperature": 0.7, "banned_ids": vlm.processor.banned_ids, "chunk": 5}
    result = token_logprobs(vlm.model, micro, vlm.processor, **options)
    count = int(micro.sequence_L.max()) + 1
    return [result.logprobs_L[micro.sequence_L == n].tolist() for n in range(count)]
