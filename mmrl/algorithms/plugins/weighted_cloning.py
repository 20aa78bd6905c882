"""Advantage-weighted cloning (AW-BC of ARM): imitate every completion by how much it gained, and never push away.

    w = clamp((r - (mean - 2 std)) / (4 std + eps), 0, 1)     mean and std (population) over all completions of the step
    loss = -w log p

Gains [-0.2, 0, 0.1, 0.2, 0.4]: w = [0.125, 0.375, 0.5, 0.625, 0.875]; nine of 0 and one of 10: 0.4167 each and 1. With
equal gains w is 0.5 where eps allows, and here exactly so: every completion is imitated alike.

ARM's gain is the change of a progress model over a window; here it is the reward of the completion, so give the gain as
the reward (`progress`, say) or as a column. Source: arXiv 2604.03037, paper text. No neutral options: the weights are
never those of a policy gradient.

Shape letters: N completions, C completion tokens.
"""

import math

import torch

from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.training.distributed import sum_over_ranks

NEUTRAL = None
CONSTANT_GROUP = "the weight that its reward has among all of the step, which is never negative"


class Plugin:
    """eps: added to four standard deviations."""

    def __init__(self, *, eps: float = 1e-6) -> None:
        self._eps = eps

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        known_N = rewards_N[~rewards_N.isnan()].double()
        count, total = sum_over_ranks([len(known_N), known_N.sum().item()])
        mean = total / max(count, 1)
        [squares] = sum_over_ranks([((known_N - mean) ** 2).sum().item()])
        std = math.sqrt(squares / max(count, 1))
        weight_N = ((rewards_N.double() - mean + 2 * std) / (4 * std + self._eps)).clamp(0, 1)
        if std == 0:
            weight_N = torch.full_like(weight_N, 0.5)
        weight_N = torch.where(rewards_N.isnan(), 0.0, weight_N)
        return (weight_N[:, None] * batch.mask_NC).float()

    def policy_loss(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        return -inputs.advantage_NC * inputs.policy_NC, {"cloning_weight": inputs.advantage_NC}
