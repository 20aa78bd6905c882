"""RLCR: a stated confidence is scored with the answer, so that the best one to state is the chance of being right.

    R = R_o - (q - c) ** 2     c: correctness, q: confidence, parts of 0 to 1; R_o counts c once

A completion that states no confidence (the part `confidence` is below 0) gets 0. split: the released form,
R_o + 0.5 * (1 - (q - c)^2), whose R_o is 0.5 * format + 0.5 * c.

c = 1: q 1, 0.5, 0 give 1, 0.75, 0. c = 0: 0, -0.25, -1. Right with probability 0.7: q = 0.7 is best and worth 0.49.
Source: Damani et al. 2025. `advantage: dr_grpo` leaves the advantages unscaled, as there.

No neutral options: the Brier term has the weight 1 of the answer.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.parts import part
from mmrl.algorithms.rollout_batch import RolloutBatch

NEUTRAL = None


class Plugin:
    """correct, confidence: names of the parts. A row whose task has no confidence keeps R_o."""

    def __init__(self, *, correct: str = "correct", confidence: str = "confidence", split: bool = False) -> None:
        self._correct, self._confidence, self._split = correct, confidence, split

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        correct_N = part(batch, self._correct, option="rlcr's option 'correct'")
        confidence_N = part(batch, self._confidence, option="rlcr's option 'confidence'")
        brier_N = (confidence_N - correct_N) ** 2
        shaped_N = rewards_N + (0.5 * (1 - brier_N) if self._split else -brier_N)
        shaped_N = torch.where((confidence_N < 0) & ~rewards_N.isnan(), 0.0, shaped_N)
        return torch.where(confidence_N.isnan(), rewards_N, shaped_N), None
