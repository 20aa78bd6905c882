"""SimpleVLA-RL's dynamic sampling: train on groups that succeed sometimes, neither hardly ever nor nearly always.

A group is kept iff low <= mean success <= high. Of 8 episodes with bounds 0.1 and 0.9: 1 to 7 successes are kept, 0
and 8 dropped. Unscored completions are left out of the mean; a group without a scored one is dropped.

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

    def __init__(self, *, low: float = 0.1, high: float = 0.9, success: str | None = None) -> None:
        if not low <= high:
            raise ConfigError(f"success_filter: low ({low:g}) must not be above high ({high:g})")
        self._low, self._high, self._success = low, high, success

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        success_N = rewards_N
        if self._success is not None:
            success_N = part(batch, self._success, option="success_filter's option 'success'")
        stats = group_stats(success_N, batch.gid_N)
        return (stats.count_N > 0) & (stats.mean_N >= self._low) & (stats.mean_N <= self._high)
