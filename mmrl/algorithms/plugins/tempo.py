"""TEMPO: completions of a group that share a beginning form a tree; where they part, the token's share is known.

    V(prefix) = mean reward of the group's completions that begin with it
    TD_t = V(tokens up to t) - V(tokens before t)
    A_t  = (r - mean + coef * TD_t) / (std + eps)

No tree is sampled: completions that happen to share tokens suffice. A token at which nobody parts has GRPO's value.
Completions that differ from the first token on do not: their first token gets twice GRPO's value.

coef 1. Source: fatebreaker/tempo@0a1c273, read in code (there with 7 completions, clip 0.2 and 0.28, no KL).
r = [1, 0, 1, 1], tokens [5, 6, 7, 1], [5, 6, 8, 1], [9, 6, 7, 1], [4, 6, 7, 1]: row 0 gets [0, .5, 1.5, .5], row 1
[-2, -1.5, -2.5, -1.5].

Shape letters: N completions, C completion tokens.
"""

from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL: dict[str, Any] = {"coef": 0.0}


class Plugin:
    """coef: weight of the tree's term; 0 is GRPO."""

    def __init__(self, *, coef: float = 1.0) -> None:
        self._coef = coef

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        stats = group_stats(rewards_N, batch.gid_N)
        step_NC = self._coef * _differences(rewards_N, batch, stats.mean_N)
        advantage_NC = ((rewards_N - stats.mean_N)[:, None] + step_NC) / (stats.std_N + settings.std_eps)[:, None]
        has_signal_NC = batch.mask_NC & ~(stats.constant_N | rewards_N.isnan())[:, None]
        return torch.where(has_signal_NC, advantage_NC, 0.0).float()


def _differences(rewards_N: torch.Tensor, batch: RolloutBatch, mean_N: torch.Tensor) -> torch.Tensor:
    """TD_t per cell; 0 after the token at which a completion is alone."""
    steps_NC = torch.zeros(batch.mask_NC.shape, dtype=torch.float64)
    node_N = batch.gid_N.unique(return_inverse=True)[1]
    value_N = mean_N
    for t in range(steps_NC.shape[1]):
        # A completion that has ended shares no further token; -1 is no id.
        token_N = torch.where(batch.mask_NC[:, t], batch.ids_NC[:, t], -1)
        node_N = torch.stack([node_N, token_N], 1).unique(dim=0, return_inverse=True)[1]
        below = group_stats(rewards_N, node_N)
        steps_NC[:, t] = below.mean_N - value_N
        value_N = below.mean_N
        if int(below.count_N.max()) <= 1:
            break
    return steps_NC
