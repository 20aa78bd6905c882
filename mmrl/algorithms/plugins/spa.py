"""SPA (stepwise progress attribution): the outcome is shared out among the steps by a model's estimate of progress.

    c_k   estimated contribution of step k, the column `progress`; scaled so that they add up to the outcome R:
          c^_k = c_k R / sum c (R / K each where the sum is below 1e-6 in magnitude)
    r_k = alpha * c^_k + beta * g_k        g_k: whether the step could be carried out, the column `grounding`
    A = outcome * GRPO + coef * (r_k less its mean over the steps of the group)

alpha 1, beta .5, coef 1, outcome 0: weights are guesses. Source: Wang et al. 2025 (2505.20732), abstract; the sum rule
and the fused step reward as there, the group's mean as the baseline is derived (PPO with a critic there).
With outcome 1 and coef 0 it is GRPO.

R = 1, c = [.2, .6, .2] keep; c = [1, 1]: .5 each; R = 0: nothing is shared out.

Shape letters: N completions, C completion tokens, S steps.
"""

from typing import Any

import torch

from mmrl.algorithms.process import centred_in_group, steps_of, with_outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL: dict[str, Any] = {"coef": 0.0, "outcome": 1.0}


class Plugin:
    """progress, grounding: names of the columns, or None. outcome, coef: weights of GRPO and of the steps."""

    def __init__(
        self,
        *,
        progress: str = "progress",
        grounding: str | None = None,
        alpha: float = 1.0,
        beta: float = 0.5,
        coef: float = 1.0,
        outcome: float = 0.0,
    ) -> None:
        self._progress, self._grounding = progress, grounding
        self._alpha, self._beta, self._coef, self._outcome = alpha, beta, coef, outcome

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        steps = steps_of(batch, self._progress, option="spa's option 'progress'")
        values_NS = self._alpha * _shared_out(steps.values_NS, rewards_N)
        if self._grounding is not None:
            grounding = steps_of(batch, self._grounding, option="spa's option 'grounding'").values_NS
            missing = values_NS.shape[1] - grounding.shape[1]
            values_NS = values_NS + self._beta * torch.nn.functional.pad(grounding, (0, missing)).nan_to_num(nan=0.0)
        values_NS = centred_in_group(values_NS, batch.gid_N)
        return with_outcome(rewards_N, batch, settings, steps, values_NS, coef=self._coef, outcome=self._outcome)


def _shared_out(values_NS: torch.Tensor, rewards_N: torch.Tensor) -> torch.Tensor:
    """Contributions that add up to the reward; NaN where there is no step, or no reward."""
    present_NS = ~values_NS.isnan()
    total_N1 = values_NS.nan_to_num(nan=0.0).sum(1, keepdim=True)
    even_NS = present_NS / present_NS.sum(1, keepdim=True).clamp(min=1)
    share_NS = torch.where(total_N1.abs() < 1e-6, even_NS, values_NS / total_N1)
    return torch.where(present_NS, share_NS * rewards_N[:, None], torch.nan)
