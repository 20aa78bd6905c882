"""Prefers the shorter of the completions of a group (Kimi k1.5's length reward), or those near a length (L1).

    group:  l = 0.5 - (length - shortest) / (longest - shortest);  R = R_o + coef * l where R_o >= threshold,
            R_o + coef * min(l, 0) elsewhere; nothing where all are equally long
    target: R = R_o - coef * |length - target| / target

A wrong answer is never rewarded for being short. Lengths 10, 20, 30: l = 0.5, 0, -0.5.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import PositiveInt

NEUTRAL = {"coef": 0.0}
CONSTANT_GROUP = "shorter completions get more than longer ones"


class Plugin:
    """coef: its weight. target: tokens that are wanted; None: shorter is better within the group."""

    def __init__(self, *, coef: float = 0.1, target: PositiveInt | None = None, threshold: float = 0.5) -> None:
        self._coef, self._target, self._threshold = coef, target, threshold

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        if self._target is not None:
            return rewards_N - self._coef * (batch.length_N.double() - self._target).abs() / self._target, None
        bonus_N = _group_bonus(batch)
        bonus_N = torch.where(rewards_N >= self._threshold, bonus_N, bonus_N.clamp(max=0.0))
        return rewards_N + self._coef * bonus_N, None


def _group_bonus(batch: RolloutBatch) -> torch.Tensor:
    length_N, group_N = batch.length_N.double(), batch.gid_N.unique(return_inverse=True)[1]
    empty_P = length_N.new_zeros(int(group_N.max()) + 1 if len(group_N) else 0)
    shortest_N = (empty_P + torch.inf).scatter_reduce(0, group_N, length_N, "amin")[group_N]
    longest_N = empty_P.scatter_reduce(0, group_N, length_N, "amax")[group_N]
    spread_N = longest_N - shortest_N
    return torch.where(spread_N > 0, 0.5 - (length_N - shortest_N) / spread_N.clamp(min=1), 0.0)
