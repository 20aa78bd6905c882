"""The next prompts of a stage, prepared, on every rank its own."""

from __future__ import annotations

from mmrl.config.schema import StageSection
from mmrl.data.loader import Loader
from mmrl.data.prepare import Prepared
from mmrl.errors import TooManySkippedError
from mmrl.training import distributed
from mmrl.training.runtime import Runtime, stage_data


def rank_share(total: int) -> int:
    """How many of `total` items fall to this rank when they are dealt out in turn."""
    return len(range(distributed.rank(), total, distributed.world_size()))


def next_prompts(run: Runtime, section: StageSection, loader: Loader, *, count: int) -> list[Prepared]:
    """The next `count` prompts of this rank. Rows that are skipped are replaced by the ones that follow.

    Every rank draws the same rows and keeps each `world size`-th. TooManySkippedError when a whole epoch is not enough.
    """
    ranks, rank = distributed.world_size(), distributed.rank()
    prepared: list[Prepared] = []
    drawn = 0
    while len(prepared) < count:
        if drawn > len(loader) + count * ranks:
            raise TooManySkippedError(f"stage {section.name!r}: a whole epoch gave only {len(prepared)} usable rows")
        rows = loader.next((count - len(prepared)) * ranks)
        drawn += len(rows)
        prepared += run.prepare(rows[rank::ranks], stage_data(run.config, section))
    return prepared
