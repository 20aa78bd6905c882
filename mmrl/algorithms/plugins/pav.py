"""PAV (process advantage verifiers): a step is worth what it changes in another policy's chance of success.

    V_k   a prover's value after step k, the column `values`; V_0 before the first one
    A = GRPO on the outcome + alpha * (V_k - V_(k-1)) on the tokens of step k

V_0 is the part `start` where it is given, else the mean of V_1 over the group, which the value of the prompt is the
mean of (derived). A step that any prover would take, good or not, adds nothing; padding with such steps neither.

alpha 1: the source's weight was not found. Source: Setlur et al. 2024 (2410.08146), abstract and memory.
V_0 = .5, V = [.7, .7, .4]: changes [.2, 0, -.3].

Shape letters: N completions, C completion tokens, S steps.
"""

from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.parts import part
from mmrl.algorithms.process import steps_of, with_outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL: dict[str, Any] = {"alpha": 0.0}


class Plugin:
    """values: name of the column. start: a part with the prompt's value, or None. alpha: weight of the change."""

    def __init__(self, *, values: str = "values", start: str | None = None, alpha: float = 1.0) -> None:
        self._values, self._start, self._alpha = values, start, alpha

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        steps = steps_of(batch, self._values, option="pav's option 'values'")
        values_NS = steps.values_NS
        if values_NS.shape[1]:
            before_NS = torch.cat([self._before(values_NS, batch)[:, None], values_NS[:, :-1]], 1)
            values_NS = values_NS - before_NS
        return with_outcome(rewards_N, batch, settings, steps, values_NS, coef=self._alpha)

    def _before(self, values_NS: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        if self._start is not None:
            return part(batch, self._start, option="pav's option 'start'")
        stats = group_stats(values_NS[:, 0], batch.gid_N)
        return torch.where(stats.constant_N, values_NS[:, 0], stats.mean_N)
