"""CDE, the actor's part: a bonus for answers that surprise the policy itself, never more than a share of the reward.

    B = -(mean log-prob of the completion before the update)
    R = r + w * min(|r| / kappa, alpha * B),   w = omega * (1 - floor(stairs * step / total steps) / stairs)

With rewards 0 and 1 a wrong answer gets nothing; that confident errors cost more needs -1 and 1. With kappa above 1 no
sign turns. w falls in `stairs` equal steps (the source found a staircase best; its numbers were not found).

omega 1, kappa 2, alpha 1, stairs 5: guesses. Source: the paper's text. r = 1: B .3 gives 1.3, B 2 gives 1.5 (bounded);
r = 0: 0; w .5, r = 1, B 2: 1.25.

Shape letters: N completions, C completion tokens.
"""

import math
from typing import Any

import torch

from mmrl.algorithms.parts import mean_over_tokens
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat, PositiveFloat, PositiveInt

NEUTRAL: dict[str, Any] = {"omega": 0.0}
CONSTANT_GROUP = "GRPO on the bonus, where the rewards are not 0"
NEEDS_EARLY = ("old",)


class Plugin:
    """omega: weight at first. kappa: the bonus is at most |r| / kappa. alpha: weight of the surprise. stairs: of w."""

    def __init__(
        self,
        *,
        omega: NonNegativeFloat = 1.0,
        kappa: PositiveFloat = 2.0,
        alpha: NonNegativeFloat = 1.0,
        stairs: PositiveInt = 5,
    ) -> None:
        self._omega, self._kappa, self._alpha, self._stairs = omega, kappa, alpha, stairs

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        assert batch.old_NC is not None, "NEEDS_EARLY contains old"
        down = math.floor(self._stairs * batch.step / max(batch.total_steps, 1)) / self._stairs
        surprise_N = -mean_over_tokens(batch.old_NC, batch.mask_NC)
        bonus_N = torch.minimum(rewards_N.abs() / self._kappa, self._alpha * surprise_N)
        return rewards_N + self._omega * (1 - down) * bonus_N, None
