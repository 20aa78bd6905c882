"""Rows in stages by task, or by the text in a column: Omni-Thinker's order of tasks, RewardMap's stages.

    stages     lists of values, in order; a stage's rows come when the share of steps before it is done
    shares     of the steps per stage; none: in proportion to the stages' rows, so that steps * prompts = rows is one
               pass
    transfer   accuracies [after task k][of task i], tasks as the stages (one value each) list them: the stages are
               sorted by BWT_k = mean over i < k of (a[k][i] - a[i][i]), highest first; BWT_0 = 0
    review     share of a step's prompts from the stages before, drawn by chance
    shuffle    all: each stage in a new order each pass; first: the first stage alone; none: file order

BWT (Omni-Thinker's worked numbers): after task 2 task 1 goes from .60 to .55: -.05; after task 3 from .55 to .50 while
task 2 goes from .70 to .72: mean(-.10, .02) = -.04. So the order is 1, 3, 2. RewardMap: TorF1 + TorF2, shuffled, then
Counting2 + Counting3, Counting1, planning, in file order, one pass (`shuffle: first`).

Source: Omni-Thinker, abstract (least forgetting first; the rule with BWT is derived); fscdc/RewardMap@15428ac3, read in
code. stages () is the loader's order: GRPO. 8 bytes a row; a draw costs the same at any number of rows but for one sort
a pass.
"""

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np

from mmrl.config.section import Probability
from mmrl.data.loader import hash_numbers
from mmrl.data.pool import Pool
from mmrl.errors import ConfigError, did_you_mean

NEUTRAL: dict[str, Any] = {"stages": ()}


class Plugin:
    """column: None: stages list tasks."""

    def __init__(
        self,
        *,
        stages: Sequence[Sequence[str]] = (),
        column: str | None = None,
        shares: Sequence[float] = (),
        transfer: Sequence[Sequence[float]] = (),
        review: Probability = 0.0,
        shuffle: Literal["all", "first", "none"] = "all",
    ) -> None:
        _check(stages, shares, transfer)
        order = _by_transfer(transfer) if transfer else range(len(stages))
        self._stages = [stages[number] for number in order]
        self._shares = [shares[number] for number in order] if shares else []
        self._column, self._review, self._shuffle = column, review, shuffle
        self._taken = [0] * len(stages)
        self._pool: Pool | None = None

    def draw(self, pool: Pool, count: int, chance: random.Random) -> list[int]:
        if not self._stages:
            return pool.own_order(count)
        if self._pool is not pool:
            self._open(pool)
        stage = self._stage_at(pool.progress)
        reviewed = sum(chance.random() < self._review for _ in range(count)) if stage else 0
        earlier = sum(len(rows) for rows in self._rows[:stage])
        old = [int(self._sorted[chance.randrange(earlier)]) for _ in range(reviewed)]
        return [*(self._next(stage) for _ in range(count - reviewed)), *old]

    def state_dict(self) -> dict[str, Any]:
        return {"taken": list(self._taken)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._taken = list(state["taken"])

    def _open(self, pool: Pool) -> None:
        labels = pool.labels(self._column)
        of_name = {name: number for number, names in enumerate(self._stages) for name in names}
        for name in labels.names:
            if name not in of_name:
                hint = did_you_mean(name, of_name)
                raise ConfigError(
                    f"stage_order: rows are of {name!r}, which is in no stage{hint}; add it, or use `tasks`"
                )
        stage_R = np.array([of_name[name] for name in labels.names])[labels.code_R]
        self._sorted = np.argsort(stage_R, kind="stable")  # rows by stage, in file order
        ends = np.searchsorted(stage_R[self._sorted], np.arange(1, len(self._stages)))
        self._rows = np.split(self._sorted, ends)
        for names, rows in zip(self._stages, self._rows, strict=True):
            if not len(rows):
                raise ConfigError(
                    f"stage_order: no row is of the stage {list(names)}; there are: {', '.join(labels.names)}"
                )
        shares = self._shares or [len(rows) / len(pool) for rows in self._rows]
        self._begins = [0.0, *accumulate(shares)][:-1]
        self._orders: dict[int, tuple[int, np.ndarray]] = {}
        self._pool = pool

    def _stage_at(self, progress: float) -> int:
        return max(number for number, begin in enumerate(self._begins) if begin <= progress + 1e-9)

    def _next(self, stage: int) -> int:
        epoch, place = divmod(self._taken[stage], len(self._rows[stage]))
        self._taken[stage] += 1
        return int(self._order(stage, epoch)[place])

    def _order(self, stage: int, epoch: int) -> np.ndarray:
        rows = self._rows[stage]
        if self._shuffle == "none" or (self._shuffle == "first" and stage):
            return rows
        if self._orders.get(stage, (-1,))[0] != epoch:
            ranks = np.argsort(hash_numbers(f"stage_order/{stage}/{epoch}", rows), kind="stable")
            self._orders[stage] = (epoch, rows[ranks])
        return self._orders[stage][1]


def _check(stages: Sequence[Sequence[str]], shares: Sequence[float], transfer: Sequence[Sequence[float]]) -> None:
    names = [name for names in stages for name in names]
    if len(set(names)) < len(names) or not all(stages):
        raise ConfigError(
            f"stage_order: a stage is empty, or a value stands twice in stages {[list(s) for s in stages]}"
        )
    if shares and (len(shares) != len(stages) or abs(sum(shares) - 1) > 1e-6 or min(shares) <= 0):
        raise ConfigError(
            f"stage_order: shares are one for each of {len(stages)} stages and add up to 1; {list(shares)}"
        )
    if transfer and (len(transfer) != len(stages) or any(len(row) != len(stages) for row in transfer)):
        raise ConfigError(f"stage_order: transfer has a row and a column for each of the {len(stages)} stages")


def _backward_transfer(accuracies: Sequence[Sequence[float]]) -> list[float]:
    """BWT_k: by how much training on task k changed the tasks before it, since each was trained on, in the mean."""
    diagonal = [row[number] for number, row in enumerate(accuracies)]
    changes = [[row[i] - diagonal[i] for i in range(k)] for k, row in enumerate(accuracies)]
    return [sum(row) / len(row) if row else 0.0 for row in changes]


def _by_transfer(accuracies: Sequence[Sequence[float]]) -> list[int]:
    transfer = _backward_transfer(accuracies)
    return sorted(range(len(transfer)), key=lambda k: -transfer[k])
