"""FR3E: a completion is taken up again where the policy was least sure, and its parts count by what they gained.

    base      one completion of each group by chance
    S_j       its `anchors` tokens of highest entropy in their order; `children` completions go on from before each
    V(S_j)    mean reward of these; V(S_0) that of the group's first completions
    weight    exp(-(V(S_j) - V(S_{j-1}))) on the tokens from S_j to the next anchor: of the base, and of what went on
              from an anchor, all the tokens behind it
    dropped   groups whose rewards are all equal

The weight multiplies GRPO's advantage over all of a group's completions: a part that gained much already learns less.

anchors 4, children 4, with clip-higher. Source: the paper's text; V(S_0) and the base are derived. The engine reports
entropies (`rollout.engine: hf`; vLLM does not).

Gains .5, 0, -.5: weights .6065, 1, 1.6487. 4 anchors of 4 children: 16 more completions.

Shape letters: N completions, C completion tokens.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.parts import drawn_order, outcome, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.trees import START, TREE, Fork, grown, planted
from mmrl.config.section import NonNegativeInt, PositiveInt

NEUTRAL: dict[str, Any] = {"anchors": 0}
REPORTS = ("entropy",)
WEIGHT = "fr3e.weight"


class Plugin:
    """anchors: 0: none, and no group is dropped."""

    def __init__(self, *, anchors: NonNegativeInt = 4, children: PositiveInt = 4) -> None:
        self._anchors, self._children = anchors, children

    def second_round(self, batch: RolloutBatch, generate: Callable[..., RolloutBatch]) -> RolloutBatch:
        if not self._anchors:
            return batch
        first, batch = outcome(batch), planted(batch)
        bases = {gid: rows[0] for gid, rows in rows_of_groups(batch, drawn_order(batch)).items()}
        places = {row: self._places(batch, row) for row in bases.values()}
        forks = [Fork(row, place) for row, chosen in places.items() for place in chosen]
        start = {row: _mean(first[batch.gid_N == gid].tolist()) for gid, row in bases.items()}
        batch = grown(batch, generate, forks, n=self._children)
        weight_NC = torch.ones(batch.mask_NC.shape, dtype=torch.float64)
        rewards, trees, starts = outcome(batch).tolist(), batch.meta[TREE].tolist(), batch.meta[START].tolist()
        for row, chosen in places.items():
            value = start[row]
            for place, end in zip(chosen, [*chosen[1:], None], strict=True):
                children = [n for n in range(len(first), len(batch)) if (trees[n], starts[n]) == (trees[row], place)]
                after = _mean([rewards[n] for n in children])
                weight = math.exp(-(after - value)) if math.isfinite(after - value) else 1.0
                value = after if math.isfinite(after) else value
                weight_NC[row, place:end] = weight
                later = [n for n in range(len(first), len(batch)) if trees[n] == trees[row] and starts[n] > place]
                weight_NC[later, place:end] = weight
                weight_NC[children, place:] = weight
        return replace(batch, meta={**batch.meta, WEIGHT: weight_NC})

    def keep(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> torch.Tensor:
        if not self._anchors:
            return torch.ones(len(batch), dtype=torch.bool)
        return ~group_stats(rewards_N, batch.gid_N).constant_N

    def token_weight(self, advantage_NC: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        weight_NC = batch.meta.get(WEIGHT)
        return torch.ones_like(advantage_NC) if weight_NC is None else weight_NC.to(advantage_NC).nan_to_num(nan=1.0)

    def _places(self, batch: RolloutBatch, row: int) -> list[int]:
        """The places of highest entropy, rising; the earlier of equal ones."""
        entropy = batch.meta["rollout_entropy"][row][batch.mask_NC[row]].tolist()
        return sorted(sorted(range(len(entropy)), key=lambda t: (-entropy[t], t))[: self._anchors])


def _mean(values: Sequence[float]) -> float:
    """Of the numbers that are none of NaN; NaN of none."""
    known = [value for value in values if value == value]
    return sum(known) / len(known) if known else math.nan
