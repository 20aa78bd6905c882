"""AdaTooler-V's AT-GRPO: calls of tools are worth something where tools help, and cost something where they do not.

    R = R_o + alpha * benefit * exp(-gamma * ((calls - most_calls) / most_calls) ** 2)

`benefit` is the accuracy with tools minus the one without, stored per sample: a part of weight 0 that returns it
(`column_value`). `calls` is a part of weight 0 that counts them (`tool_calls`). The term is added to wrong answers
too, as in the released code.

R_o 1, benefit 0.4: no call 1.0325, 3 calls 1.1456, 6 calls 1.24. Benefit -0.3, 6 calls, wrong: -0.18.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.parts import part
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import PositiveInt

NEUTRAL = {"alpha": 0.0}


class Plugin:
    """calls, benefit: names of the parts. A row without one of them keeps R_o."""

    def __init__(
        self,
        *,
        calls: str = "tool_calls",
        benefit: str = "tool_benefit",
        alpha: float = 0.6,
        gamma: float = 2.0,
        most_calls: PositiveInt = 6,
    ) -> None:
        self._calls, self._benefit = calls, benefit
        self._alpha, self._gamma, self._most_calls = alpha, gamma, most_calls

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        calls_N = part(batch, self._calls, option="tool_benefit's option 'calls'")
        benefit_N = part(batch, self._benefit, option="tool_benefit's option 'benefit'")
        share_N = (-self._gamma * ((calls_N - self._most_calls) / self._most_calls) ** 2).exp()
        return rewards_N + (self._alpha * benefit_N * share_N).nan_to_num(nan=0.0), None
