"""The heaviest micro-batch of a step: the longest prompts fall together, and completions are as long as allowed.

Pure; packing follows mmrl/models/packing.py: a group is as few rows as fit, each with its prompt once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mmrl.plan.activations import PassShape
from mmrl.plan.rows import PlannedRow
from mmrl.plan.shapes import VisionShape


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """completions: of a prompt; length: of the longest. prompts: of one optimizer step on one process. shared: a group
    shares its prompt's tokens. padded: rows are filled up to the longest. runs_tower: pixels go through the tower.
    """

    completions: int
    length: int
    prompts: int
    micro_batch_tokens: int
    shared: bool
    padded: bool
    runs_tower: bool


class _PackedRow(NamedTuple):
    tokens: int
    loss_tokens: int
    source: PlannedRow


def tower_positions(row: PlannedRow, vision: VisionShape) -> dict[str, tuple[int, int]]:
    """Of each distinct medium of a prompt: positions of the vision tower and the tokens they become."""
    found = {}
    for medium in row.media:
        steps, height, width = medium.grid_thw
        if vision.positions_per_tile is not None:
            found[medium.entry] = (medium.frames * vision.positions_per_tile, medium.tokens)
        else:
            found[medium.entry] = (steps * height * width, medium.tokens)
    return found


def heaviest(rows: Sequence[PlannedRow], vision: VisionShape | None, settings: BatchSettings) -> list[PassShape]:
    """The micro-batches of whichever step is heavier: of the longest prompts, or of those with most vision tokens.

    Three completions of 100 tokens on a prompt of 300, 512 tokens a micro-batch: a row of 500 and one of 400 tokens.
    """
    by_length = sorted(rows, key=lambda row: -row.prompt_tokens)[: settings.prompts]
    by_vision = sorted(rows, key=lambda row: -row.vision_tokens)[: settings.prompts]
    steps = [_micro_batches(chosen, vision, settings) for chosen in (by_length, by_vision)]
    if not settings.runs_tower or vision is None:
        return steps[0]
    return max(steps, key=lambda step: max((_weight(micro, vision) for micro in step), default=0))


def _weight(micro: PassShape, vision: VisionShape) -> int:
    """Roughly what a micro-batch keeps: positions of the tower count by its depth."""
    return micro.tokens + micro.positions * vision.layers // 4


def longest_row(rows: Sequence[PlannedRow], settings: BatchSettings) -> int:
    """Tokens of the longest row that cannot be made shorter: a prompt with one completion."""
    return max((row.prompt_tokens for row in rows), default=0) + settings.length


def _micro_batches(rows: Sequence[PlannedRow], vision: VisionShape | None, settings: BatchSettings) -> list[PassShape]:
    packed = sorted((one for row in rows for one in _packed(row, settings)), key=lambda one: -one.tokens)
    batches: list[list[_PackedRow]] = []
    tokens = 0
    for one in packed:
        more = batches[-1][0].tokens if batches and settings.padded else one.tokens
        if batches and tokens + more <= settings.micro_batch_tokens:
            batches[-1].append(one)
            tokens += more
        else:
            batches.append([one])
            tokens = one.tokens
    return [_pass_shape(batch, vision, settings) for batch in batches]


def _packed(row: PlannedRow, settings: BatchSettings) -> list[_PackedRow]:
    length, left, packed = settings.length, settings.completions, []
    each = 1
    if settings.shared:
        each = max(1, (settings.micro_batch_tokens - row.prompt_tokens) // length)
    while left:
        count = min(each, left)
        packed.append(_PackedRow(row.prompt_tokens + count * length, count * length, row))
        left -= count
    return packed


def _pass_shape(batch: Sequence[_PackedRow], vision: VisionShape | None, settings: BatchSettings) -> PassShape:
    tokens = len(batch) * batch[0].tokens if settings.padded else sum(one.tokens for one in batch)
    media: dict[str, tuple[int, int]] = {}
    if vision is not None and settings.runs_tower:
        for one in batch:
            media.update(tower_positions(one.source, vision))
    return PassShape(
        tokens=tokens,
        loss_tokens=sum(one.loss_tokens for one in batch),
        positions=sum(positions for positions, _ in media.values()),
        media_tokens=sum(count for _, count in media.values()),
    )
