"""SimpleVLA-RL's dynamic sampling: train on groups that succeed sometimes, neither hardly ever nor nearly always.

A group is kept iff low <= mean success <= high, or, `strict`, low < mean success < high. Of 8 episodes with bounds 0.1
and 0.9: 1 to 7 successes are kept, 0 and 8 dropped. Unscored completions are left out of the mean; a group without a
scored one is dropped.

EasyR1's online filtering is `strict` with low 0.01 and high 0.99 beside `algorithm.dynamic_sampling`, which fills the
batch again (there for at most 20 rounds). Of groups with 0, 2, 8 and 6 of 8 right it keeps the second and the fourth,
as `dynamic_sampling` alone does where rewards are 0 and 1. Both read in code.

Shape letters: N completions.
"""

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.parts import part
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.errors import ConfigError

NEUTRAL = {"low": float("-inf"), "high": float("inf")}


class Plugin:
    """success: name of the part that is 1 for success and 0 for failure; None: the whole reward."""

    def __init__(
        self, *, low: float = 0.1, high: float = 0.9, success: str | None = None, strict: bool = False
    ) -> None:
        if not low <= high:
            raise ConfigError(f"success_filter: low ({low:g}) must not be above high ({high:g})")
        self._low, self._high, self._success, self._strict = low, high, success, strict

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        success_N = rewards_N
        if self._success is not None:
            success_N = part(batch, self._success, option="success_filter's option 'success'")
        stats = group_stats(success_N, batch.gid_N)
        is_inside_N = (stats.mean_N >= self._low) & (stats.mean_N <= self._high)
        if self._strict:
            is_inside_N = (stats.mean_N > self._low) & (stats.mean_N < self._high)
        return (stats.count_N > 0) & is_inside_N
