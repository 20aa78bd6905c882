"""What the router returns. Shape letters: P prompts (groups), N completions of all groups in order, K reward parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mmrl.scoring.columns import Column
from mmrl.scoring.combine import TaskRule, rewards_of_group, task_scores_of_group
from mmrl.scoring.judge.calls import NONE, JudgeCalls

Nested = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, eq=False)
class Scores:
    """The parts of the reward of every completion, and what follows from them.

    names: of the K parts, over all tasks of the run, so that columns mean the same in every batch.
    values_NK: NaN where a part is unscored, 0 where it does not belong to the row's task.
    applies_NK, is_format_NK: whether a part belongs to the row's task, and whether it is a format part of it.
    weights_NK: 0 where a part does not belong to the row's task.
    seconds_NK: what each value cost. errors_NK, timeouts_NK: why a value is NaN. unread_NK: why a value is 0: the
        reward could read nothing in the completion (mmrl.scoring.reading).
    group_sizes: completions per prompt; sums to N. rules_P: how the parts of each prompt's task are combined.
    extras, columns: per row, the other numbers of rewards that return a dict, and their lists, as `part.key`.
    events: count per `part/event` (see `mmrl.scoring.pool.Outcome`); messages: of each the first one, as
    one line that begins with the sample: `train.jsonl:3 (id=a): task 't', reward 'p': raised: ValueError: ...`.
    problems: per row, why a part is NaN, by the part's name: `raised: ValueError: ...`.
    judge_calls: of all parts together.

    With parts box_iou (weight 1, value 0.6) and format (weight 0.2, is_format, value 1) a row's reward is
    1 * 0.6 + 0.2 * 1 = 0.8, and its task score is 0.6.
    """

    names: tuple[str, ...]
    values_NK: np.ndarray
    applies_NK: np.ndarray
    weights_NK: np.ndarray
    is_format_NK: np.ndarray
    seconds_NK: np.ndarray
    errors_NK: np.ndarray
    timeouts_NK: np.ndarray
    unread_NK: np.ndarray
    group_sizes: tuple[int, ...]
    rules_P: tuple[TaskRule, ...]
    extras: tuple[Mapping[str, float], ...]
    events: Mapping[str, int]
    messages: Mapping[str, str]
    problems: tuple[Mapping[str, str], ...]
    columns: tuple[Mapping[str, Column], ...] = ()
    judge_calls: JudgeCalls = NONE

    @cached_property
    def rewards_N(self) -> np.ndarray:
        """The parts combined by the task's rule; NaN where a part with a weight is unscored."""
        return self._by_group(rewards_of_group)

    @cached_property
    def task_scores_N(self) -> np.ndarray:
        """What held-out scores are made of: the parts that are not format parts (`combine.task_scores_of_group`)."""
        return self._by_group(task_scores_of_group)

    @cached_property
    def rewards(self) -> Nested:
        """rewards[p][g]: of completion g of group p; NaN when unscored."""
        return self._per_group(self.rewards_N)

    @cached_property
    def task_scores(self) -> Nested:
        """task_scores[p][g]: of completion g of group p; NaN when unscored."""
        return self._per_group(self.task_scores_N)

    @cached_property
    def breakdown(self) -> dict[str, np.ndarray]:
        """Values (N) per part; NaN where unscored and where the part does not belong to the row's task."""
        masked_NK = np.where(self.applies_NK, self.values_NK, np.nan)
        return {name: masked_NK[:, k] for k, name in enumerate(self.names)}

    def row_breakdown(self, row: int) -> dict[str, float]:
        """The parts of one row's task with their values, and its extras."""
        parts = {n: float(self.values_NK[row, k]) for k, n in enumerate(self.names) if self.applies_NK[row, k]}
        return {**parts, **self.extras[row]}

    def breakdown_of(self, group: int, completion: int) -> dict[str, float]:
        """`row_breakdown` of one completion of one group."""
        return self.row_breakdown(self._row(group, completion))

    def is_unread(self, group: int, completion: int) -> bool:
        """Whether a part that counts for the task score could read nothing in one completion of one group."""
        row = self._row(group, completion)
        return bool((self.unread_NK[row] & ~self.is_format_NK[row]).any())

    def _row(self, group: int, completion: int) -> int:
        return sum(self.group_sizes[:group]) + completion

    def _by_group(self, combine: Callable[[np.ndarray, TaskRule], np.ndarray]) -> np.ndarray:
        groups = np.split(self.values_NK, self._bounds)
        return np.concatenate([np.zeros(0), *map(combine, groups, self.rules_P)])

    def _per_group(self, values_N: np.ndarray) -> Nested:
        return tuple(tuple(part.tolist()) for part in np.split(values_N, self._bounds))

    @property
    def _bounds(self) -> np.ndarray:
        return np.cumsum(self.group_sizes)[:-1]
