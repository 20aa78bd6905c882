"""Adds for a completion that ends by itself instead of being cut at the length limit (olmOCR 2's end term).

    R = R_o + coef where the completion is not truncated

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.rollout_batch import RolloutBatch

NEUTRAL = {"coef": 0.0}
CONSTANT_GROUP = "truncated completions get less than the others"


class Plugin:
    """coef: what is added; of olmOCR 2, whose other terms are tests (0 to 1) and front matter (0 to 1), 1."""

    def __init__(self, *, coef: float = 1.0) -> None:
        self._coef = coef

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        return rewards_N + self._coef * (~batch.truncated_N).double(), None
