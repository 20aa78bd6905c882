"""GTA (guess, think, answer): supervised learning of a first guess and reinforcement of the answer, in one loss.

    tokens of the guess, the column `guess`: value above 0 where the guess is the dataset's label
    loss = policy loss on all other tokens + coef * value * (-log policy) on the guess

The guess takes no part in the policy loss: its weight there is 0 (the source's loss masking). A wrong guess (value 0)
has no loss at all, since imitating it would teach it; with a forced guess (`prefix_ids` of a second round) every value
is 1. The regulariser is aggregated as the policy loss is.

Not here: the source's "gradient constraint" between the two losses, whose formula was not found (its abstract and
summaries name it; a projection of conflicting gradients is likely). Any such needs the gradient of each loss by
parameter. The trainer has one backward pass, whose gradients DeepSpeed sums, spreads over the processes (ZeRO) and
clips as they appear; a second set would be a second pass, and as much memory again as the gradients take. So the losses
are added, as they are.

coef 1. Source: 2509.12108, abstract and summaries of others. coef None takes nothing away and adds nothing: GRPO.
Log-prob -2 at value 1: loss 2; -.5: .5; value 0: 0.

Shape letters: N completions, C completion tokens.
"""

from typing import Any

import torch

from mmrl.algorithms.losses import LossInput, TokenStats
from mmrl.algorithms.parts import on_tokens_of
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import NonNegativeFloat

NEUTRAL: dict[str, Any] = {"coef": None}
OPTION = "gta's option 'guess'"


class Plugin:
    """guess: name of the column. coef: weight of the supervised term; None: the guess is like any other token."""

    def __init__(self, *, guess: str = "guess", coef: NonNegativeFloat | None = 1.0) -> None:
        self._guess, self._coef = guess, coef

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        if self._coef is None:
            return torch.ones_like(advantage_NC)
        value_NC, _ = on_tokens_of(batch, self._guess, option=OPTION)
        return value_NC.isnan().to(advantage_NC.dtype)

    def regulariser(self, inputs: LossInput) -> tuple[torch.Tensor, TokenStats]:
        if self._coef is None:
            return torch.zeros_like(inputs.policy_NC), {}
        value_NC, _ = on_tokens_of(inputs.batch, self._guess, option=OPTION)
        value_NC = value_NC.nan_to_num(nan=0.0).clamp(min=0.0).to(inputs.policy_NC.dtype)
        loss_NC = torch.where(value_NC > 0, -value_NC * inputs.policy_NC, 0.0)
        return self._coef * loss_NC, {"gta": loss_NC}
