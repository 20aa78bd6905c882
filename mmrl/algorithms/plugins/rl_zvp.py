"""RL-ZVP: groups whose rewards are all equal teach too, token by token by their entropy.

    mixed group    GRPO
    all right      A_t = alpha * H_t
    all wrong      A_t = -alpha * (max over the completion of H - H_t)

Right: every reward of the group is at least `threshold`, all equal; wrong: all equal below it. The most uncertain token
of a wrong completion is left alone. Without group filter, of course.

alpha 0.1. Source: abstract, and a third party's implementation. H = [1, 3, 0.5]: right [0.1, 0.3, 0.05], wrong
[-0.2, 0, -0.25].

Shape letters: N completions, C completion tokens.
"""

from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats, grpo
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat

NEUTRAL: dict[str, Any] = {"alpha": 0.0}
CONSTANT_GROUP = "alpha * entropy where all are right, -alpha * (largest entropy - entropy) where all are wrong"
NEEDS = ("entropy",)


class Plugin:
    """alpha: its weight. threshold: the least reward of a right answer."""

    def __init__(self, *, alpha: NonNegativeFloat = 0.1, threshold: float = 0.5) -> None:
        self._alpha, self._threshold = alpha, threshold

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        assert batch.entropy_NC is not None, "NEEDS contains entropy"
        entropy_NC = torch.where(batch.mask_NC, batch.entropy_NC.detach(), 0.0)
        wrong_NC = entropy_NC - entropy_NC.amax(1, keepdim=True)
        signal_NC = torch.where((rewards_N >= self._threshold)[:, None], entropy_NC, wrong_NC)
        constant_N = group_stats(rewards_N, batch.gid_N).constant_N & ~rewards_N.isnan()
        advantage_NC = grpo(rewards_N, batch, settings)
        return torch.where(constant_N[:, None] & batch.mask_NC, self._alpha * signal_NC, advantage_NC)
