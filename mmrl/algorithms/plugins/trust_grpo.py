"""Trust-GRPO (SophiaVL-R1): a reward of the thinking, trusted less where wrong answers got the better one.

    R = R_o + alpha * gamma * exp(-step / decay_steps) * R_t
    gamma = 1 where mean R_t of the correct >= that of the wrong, else exp(the difference); correct: R_o >= 0.5

R_o is the weighted sum, R_t the part `thinking` (a judge's, of weight 0). Groups whose R_o are all at least 0.9, or all
at most 0.1, keep R_o. official: as the released code, R_t counts only where R_o >= 0.2, else 0, so that with answers
of 0 and 1 gamma is always 1. Where no answer is correct, or none wrong, gamma is 1.

Answers [1, 1, 0, 0], thinking [.2, .4, .7, .9], step 0: gamma e^-0.5, rewards [1.0364, 1.0728, 0.1274, 0.1638].

Shape letters: N completions, C completion tokens.
"""

import math

import torch

from mmrl.algorithms.parts import group_mean, part
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import PositiveFloat

NEUTRAL = {"alpha": 0.0}


class Plugin:
    """thinking: name of the part. alpha, decay_steps: weight of its reward, and the steps in which it falls to 1/e."""

    def __init__(
        self,
        *,
        thinking: str = "thinking",
        alpha: float = 0.3,
        decay_steps: PositiveFloat = 500.0,
        official: bool = False,
    ) -> None:
        self._thinking, self._alpha, self._decay_steps, self._official = thinking, alpha, decay_steps, official

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        thinking_N = part(batch, self._thinking, option="trust_grpo's option 'thinking'")
        if self._official:
            thinking_N = torch.where(rewards_N >= 0.2, thinking_N, 0.0)
        known_N = ~rewards_N.isnan() & ~thinking_N.isnan()
        correct_N = rewards_N >= 0.5
        lead_N = group_mean(thinking_N, known_N & correct_N, batch.gid_N) - group_mean(
            thinking_N, known_N & ~correct_N, batch.gid_N
        )
        gamma_N = lead_N.nan_to_num(nan=0.0).clamp(max=0.0).exp()
        everyone_N = ~rewards_N.isnan()
        high_N = group_mean((rewards_N >= 0.9).double(), everyone_N, batch.gid_N) == 1
        low_N = group_mean((rewards_N <= 0.1).double(), everyone_N, batch.gid_N) == 1
        bonus_N = self._alpha * math.exp(-batch.step / self._decay_steps) * gamma_N * thinking_N
        return rewards_N + torch.where(known_N & ~high_N & ~low_N, bonus_N, 0.0), None
