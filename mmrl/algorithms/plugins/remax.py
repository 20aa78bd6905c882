"""ReMax: the baseline of a prompt is the reward of its greedy completion, one more to generate for each prompt.

    A_t = returns to go - R(greedy)     on every token; no group is compared, so one completion a prompt is enough

Sampled 1, greedy 0: +1; sampled 0, greedy 1: -1; sampled 0.6, greedy 0.8: -0.2. An unscored completion, and one whose
greedy completion is unscored, gets 0. The greedy reward is the one of the reward functions: what shapes the rewards of
sampled completions (overlong penalty, KL, plug-ins) is not applied to it.

Source: Li et al. 2023; OpenRLHF@3c3be623 and verl@b178a3cd5, read in code. No neutral options: the baseline is never
the group's mean.

Shape letters: N completions, C completion tokens.
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.shaping import weighted_sum
from mmrl.algorithms.token_advantages import returns_to_go
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import Probability

NEUTRAL = None
CONSTANT_GROUP = "its reward less that of the greedy completion"


class Plugin:
    """gamma: discount of rewards of later tokens."""

    def __init__(self, *, gamma: Probability = 1.0) -> None:
        self._gamma = gamma

    def second_round(self, batch: RolloutBatch, generate: Callable[..., RolloutBatch]) -> RolloutBatch:
        gids = batch.gid_N.unique().tolist()
        greedy = generate(gids, greedy=True)
        rewards_N = greedy.combined_N
        if rewards_N is None:
            rewards_N = weighted_sum(greedy.rewards_NK, greedy.weights_NK)
        of_group = dict(zip(greedy.gid_N.tolist(), rewards_N.tolist(), strict=True))
        column_N = torch.tensor([of_group[gid] for gid in batch.gid_N.tolist()], dtype=torch.float64)
        return replace(batch, meta={**batch.meta, "greedy_reward": column_N})

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        greedy_N = batch.meta["greedy_reward"]
        known_N1 = ~(greedy_N.isnan() | rewards_N.isnan())[:, None]
        advantage_NC = returns_to_go(rewards_N, batch, gamma=self._gamma) - greedy_N[:, None]
        return torch.where(known_N1 & batch.mask_NC, advantage_NC, 0.0).float()
