"""Adds for right answers that are worded unlike the others of their group (after MultiRole-R1's diversity term).

    R = R_o + coef * d   where R_o >= threshold, else R_o
    d = 1 - mean over the other completions of |A and B| / |A or B|, A and B the sets of their runs of `size` tokens

Wrong answers get nothing for being different. Four equal completions have d = 0; four without a common run d = 1.

Shape letters: N completions, C completion tokens.
"""

import torch

from mmrl.algorithms.parts import ngrams
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import PositiveInt

NEUTRAL = {"coef": 0.0}
CONSTANT_GROUP = "right answers differ by how unlike the others they are"


class Plugin:
    """coef: the most that is added. size: tokens of a run. threshold: the least R_o that is added to."""

    def __init__(self, *, coef: float = 0.1, size: PositiveInt = 3, threshold: float = 0.5) -> None:
        self._coef, self._size, self._threshold = coef, size, threshold

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        runs = [frozenset(row) for row in ngrams(batch, self._size)]
        distance_N = torch.zeros(len(batch), dtype=torch.float64)
        for group in batch.gid_N.unique().tolist():
            rows = (batch.gid_N == group).nonzero().flatten().tolist()
            for row in rows:
                others = [_jaccard(runs[row], runs[other]) for other in rows if other != row]
                distance_N[row] = 1 - sum(others) / len(others) if others else 0.0
        return torch.where(rewards_N >= self._threshold, rewards_N + self._coef * distance_N, rewards_N), None


def _jaccard(one: frozenset, other: frozenset) -> float:
    together = len(one | other)
    return len(one & other) / together if together else 1.0
