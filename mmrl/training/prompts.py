"""The next prompts of a stage, prepared, on every rank its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from mmrl.config.schema import RunConfig, StageSection
from mmrl.data.loader import Loader
from mmrl.data.prepare import Prepared
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, TooManySkippedError
from mmrl.training import distributed
from mmrl.training.runtime import Runtime, stage_data


def rank_share(total: int) -> int:
    """How many of `total` items fall to this rank when they are dealt out in turn."""
    return len(range(distributed.rank(), total, distributed.world_size()))


def deal(needs: Sequence[int]) -> list[int]:
    """Which rank each of sum(needs) items falls to when they are dealt out in turn.

    >>> deal([3, 1, 2])
    [0, 1, 2, 0, 2, 0]
    """
    return [rank for turn in range(max(needs)) for rank, need in enumerate(needs) if turn < need]


def check_shares(config: RunConfig) -> None:
    """ConfigError for a stage that has fewer prompts a step than there are processes."""
    for index, section in enumerate(config.stages):
        if section.prompts_per_step < distributed.world_size():
            raise ConfigError(
                f"'stages.{index}.prompts_per_step' is {section.prompts_per_step}, less than one for each of the "
                f"{distributed.world_size()} processes; raise it, or start fewer"
            )


def next_prompts(run: Runtime, section: StageSection, loader: Loader, *, count: int) -> list[Prepared]:
    """The next `count` prompts of this rank. Rows that are skipped are replaced by the ones that follow.

    Every rank draws the same rows, as many as all ranks miss together, and they are dealt out in turn. Raises, on all
    ranks, what preparing raises, and TooManySkippedError when a whole epoch is not enough.
    """
    prepared: list[Prepared] = []
    data, drawn, counts = stage_data(run.config, section), 0, distributed.gather_objects(count)
    limit = len(loader) + sum(counts)
    with run.watch.time("data"):
        while any(needs := distributed.gather_objects(count - len(prepared))):
            if drawn > limit:
                distributed.on_main(partial(_give_up, section, usable=limit - len(loader) - sum(needs)))
            rows = loader.next(sum(needs))
            drawn += len(rows)
            prepared += distributed.together(partial(run.prepare, _mine(rows, needs), data))
            run.share_skipped()
    ahead = [_mine(loader.peek(sum(counts) * number)[-sum(counts) :], counts) for number in range(1, data.prefetch + 1)]
    run.read_ahead([row for batch in ahead for row in batch], data)
    return prepared


def _mine(rows: Sequence[Sample], needs: Sequence[int]) -> list[Sample]:
    """Those of the rows, dealt out in turn, that fall to this rank."""
    return [row for row, owner in zip(rows, deal(needs), strict=False) if owner == distributed.rank()]


def _give_up(section: StageSection, *, usable: int) -> None:
    raise TooManySkippedError(f"stage {section.name!r}: a whole epoch gave only {usable} usable rows")
