"""Clip and Delta: process rewards that cannot be collected by repeating good steps (Gao et al., 2410.15115).

    p_1 .. p_K  scores of the steps by a process reward model, the column `steps`
    clip   r_k = min(p_k - eta, 0)
    delta  r_k = p_k - p_(k+1) for k < K - 1, r_(K-1) = p_(K-1), r_K = 0
    both   clip of p, then delta of that
    A = GRPO on the outcome + coef * (sum of r from step k on, less its mean over the steps of the group)

With delta the sum from k on is p_k itself, and 0 for the last step: bounded, however many steps there are. The source
trains with a critic; the group's mean in its place is derived.

coef .02, eta .5. Source: from memory of the paper; `both` as its combination. p = [.9, .4, .7, .2]: clip
[0, -.1, 0, -.3]; delta [.5, -.3, .7, 0], sums [.9, .4, .7, 0]. Unshaped, two more steps of .9 raise 2.2 to 4.

Shape letters: N completions, C completion tokens, S steps.
"""

from typing import Any, Literal

import torch

from mmrl.algorithms.process import centred_in_group, steps_of, with_outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL: dict[str, Any] = {"coef": 0.0}


class Plugin:
    """steps: name of the column. shape: as above. coef: weight of the process. eta: score above which clip gives 0."""

    def __init__(
        self,
        *,
        steps: str = "steps",
        shape: Literal["clip", "delta", "both"] = "both",
        coef: float = 0.02,
        eta: float = 0.5,
    ) -> None:
        self._steps, self._shape, self._coef, self._eta = steps, shape, coef, eta

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        steps = steps_of(batch, self._steps, option="clip_delta's option 'steps'")
        sums_NS = centred_in_group(_from_step_on(self._shaped(steps.values_NS)), batch.gid_N)
        return with_outcome(rewards_N, batch, settings, steps, sums_NS, coef=self._coef)

    def _shaped(self, values_NS: torch.Tensor) -> torch.Tensor:
        if self._shape != "delta":
            values_NS = (values_NS - self._eta).clamp(max=0.0)
        return values_NS if self._shape == "clip" else _delta(values_NS)


def _delta(values_NS: torch.Tensor) -> torch.Tensor:
    """Differences to the next step; the last step of a row has 0, and does not count for the one before it."""
    count_N1 = (~values_NS.isnan()).sum(1, keepdim=True)
    step_S = torch.arange(values_NS.shape[1])
    counted_NS = torch.where(step_S < count_N1 - 1, values_NS, 0.0)
    next_NS = torch.nn.functional.pad(counted_NS[:, 1:], (0, 1))
    return torch.where(values_NS.isnan(), torch.nan, counted_NS - next_NS)


def _from_step_on(values_NS: torch.Tensor) -> torch.Tensor:
    sums_NS = values_NS.nan_to_num(nan=0.0).flip(1).cumsum(1).flip(1)
    return torch.where(values_NS.isnan(), torch.nan, sums_NS)
