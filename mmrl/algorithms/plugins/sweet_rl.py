"""SWEET-RL: turns are judged by a critic that sees more than the policy; the better half is raised, the worse lowered.

    a_k   the critic's advantage of turn k, the column `turns` (the mean log-ratio of its tokens, given what only the
          critic knows: the reference solution, the end of the episode)
    A = outcome * GRPO + coef * s_k,  s_k = 1, 0, -1: a_k above, at, below the median of the group's turns k
          (of an even number the mean of the middle two)

The source trains the policy by DPO on pairs of a turn from the upper and one from the lower half; the signs are the
same preference as an advantage (derived).

coef 1, outcome 0. Source: Zhou et al. 2025 (2503.15478), abstract and memory. With outcome 1 and coef 0 it is GRPO.
a = [.3, -.1, .2, -.4] at a turn: [1, -1, 1, -1]; [.3, .1, .2]: [1, -1, 0]; one completion alone: 0.

Shape letters: N completions, C completion tokens, S turns.
"""

from typing import Any

import torch

from mmrl.algorithms.process import steps_of, with_outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.schema import AlgorithmSection

NEUTRAL: dict[str, Any] = {"coef": 0.0, "outcome": 1.0}


class Plugin:
    """turns: name of the column. outcome, coef: weights of GRPO and of the turns."""

    def __init__(self, *, turns: str = "turns", coef: float = 1.0, outcome: float = 0.0) -> None:
        self._turns, self._coef, self._outcome = turns, coef, outcome

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        steps = steps_of(batch, self._turns, option="sweet_rl's option 'turns'")
        values_NS = torch.where(rewards_N.isnan()[:, None], torch.nan, steps.values_NS)
        signs_NS = torch.zeros_like(values_NS)
        for gid in batch.gid_N.unique().tolist():
            rows = batch.gid_N == gid
            if values_NS.shape[1]:
                signs_NS[rows] = (values_NS[rows] - values_NS[rows].nanquantile(0.5, dim=0)).sign()
        return with_outcome(rewards_N, batch, settings, steps, signs_NS, coef=self._coef, outcome=self._outcome)
