"""SRL (supervised reinforcement learning): each step of a completion is compared with the expert's, among the group.

    s_k   similarity of the completion's step k to the expert's, the column `similarity`, -1 for a malformed one
    A = outcome * GRPO + coef * (s_k - mean) / (std + eps), statistics over the group's values of the same step
    keep a group only where the std of some step is above `min_std`

In the source a completion is one step: a part of weight 0 is that case, and so is the reward itself. The similarity
there is difflib's ratio, 2 M / T (matched of all characters of both).

coef 1, outcome 0, min_std 0 (any spread; the source's threshold was not found). Source: Deng et al. 2025 (2510.25992),
abstract and memory. With outcome 1 and coef 0, min_std None it is GRPO.

s = [.8, .4] at a step: [.7071, -.7071]; [.5, .5]: 0; one completion alone with the step: 0.

Shape letters: N completions, C completion tokens, S steps.
"""

from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.process import standardised_by_step, steps_of, with_outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat

NEUTRAL: dict[str, Any] = {"coef": 0.0, "outcome": 1.0, "min_std": None}
OPTION = "srl's option 'similarity'"


class Plugin:
    """similarity: name of the column. outcome, coef: weights of GRPO and of the steps. min_std: None: no filter."""

    def __init__(
        self,
        *,
        similarity: str = "similarity",
        coef: float = 1.0,
        outcome: float = 0.0,
        min_std: NonNegativeFloat | None = 0.0,
    ) -> None:
        self._similarity, self._coef, self._outcome, self._min_std = similarity, coef, outcome, min_std

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        keep_N = torch.zeros(len(batch), dtype=torch.bool)
        if self._min_std is None:
            return ~keep_N
        for values_N in steps_of(batch, self._similarity, option=OPTION).values_NS.unbind(1):
            stats = group_stats(values_N, batch.gid_N)
            keep_N |= ~stats.constant_N & (stats.std_N > self._min_std)
        return keep_N

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        steps = steps_of(batch, self._similarity, option=OPTION)
        values_NS = standardised_by_step(steps.values_NS, batch.gid_N, eps=settings.std_eps)
        return with_outcome(rewards_N, batch, settings, steps, values_NS, coef=self._coef, outcome=self._outcome)
