"""LENS: wrong answers cost more the surer the policy was of them, and groups without a right one teach by that.

    p_i = exp(mean log-prob of completion i before the update)
    D   = max(1 / mean(r_i / p_i), 2 max p) where the group has a right answer, 2 max p where it has none
    r'_i = r_i - penalty * (1 - r_i) / G * p_i / (D - p_i)
    A   = GRPO on r' in mixed groups; alpha * (r' - mean) in groups of wrong answers only (all rewards 0)

Rewards are of 0 to 1; G counts the scored completions. The order of r' among wrong ones is the reverse of their
confidence, and the penalty is at most 1 / G. Groups that are all right have no signal.

alpha 0.25; penalty 1 is the method, 0 is GRPO. Source: the paper's text.
r = [1, 0, 0, 0], p = [.5, .6, .3, .1]: D = 2, r' = [1, -.1071, -.0441, -.0132], A = [1.4959, -.5976, -.4784, -.4199].

Shape letters: N completions, C completion tokens.
"""

from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats, grpo, on_tokens
from mmrl.algorithms.parts import group_mean, mean_over_tokens
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat, Probability

NEUTRAL: dict[str, Any] = {"penalty": 0.0}
CONSTANT_GROUP = "alpha * (penalty's deviation from the group mean) where all rewards are 0; 0 where all are right"
NEEDS = ("old",)


class Plugin:
    """alpha: weight of groups without a right answer. penalty: share of the penalty that is applied."""

    def __init__(self, *, alpha: NonNegativeFloat = 0.25, penalty: Probability = 1.0) -> None:
        self._alpha, self._penalty = alpha, penalty

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        raw = group_stats(rewards_N, batch.gid_N)
        negative_N = raw.constant_N & (rewards_N <= 0)
        shaped_N = rewards_N - self._penalty * self._share(rewards_N, batch) / raw.count_N.clamp(min=1)
        shaped_N = torch.where(raw.constant_N & ~negative_N, rewards_N, shaped_N)
        mixed_NC = grpo(shaped_N, batch, settings)
        stats = group_stats(shaped_N, batch.gid_N)
        negative_NC = on_tokens(self._alpha * (shaped_N - stats.mean_N), stats, batch)
        return torch.where(negative_N[:, None], negative_NC, mixed_NC)

    def _share(self, rewards_N: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        """(1 - r) p / (D - p): between 0 and 1."""
        assert batch.old_NC is not None, "NEEDS contains old"
        scored_N = ~rewards_N.isnan()
        p_N = mean_over_tokens(batch.old_NC, batch.mask_NC).exp()
        odds_N = group_mean(rewards_N / p_N, scored_N, batch.gid_N)
        most_N = _group_max(torch.where(scored_N, p_N, 0.0), batch.gid_N)
        important_N = torch.where(odds_N > 0, 1 / odds_N.clamp(min=1e-12), 0.0)
        share_N = (1 - rewards_N) * p_N / (torch.maximum(important_N, 2 * most_N) - p_N)
        return torch.where(scored_N, share_N, torch.nan)


def _group_max(values_N: torch.Tensor, gid_N: torch.Tensor) -> torch.Tensor:
    group_N = gid_N.unique(return_inverse=True)[1]
    zeros_P = values_N.new_zeros(int(group_N.max()) + 1 if len(group_N) else 0)
    return zeros_P.scatter_reduce(0, group_N, values_N, "amax")[group_N]
