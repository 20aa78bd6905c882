"""Submodular set rewards: a group is worth its best answer of each kind, and each answer its Shapley share of that.

    f(S) = sum over the kinds of answers in S of the largest reward among them
    R = (1 - mix) * r + mix * G * share / (number of kinds that earn)     shares add up to f of the whole group

`classes` is a part of weight 0 that numbers the distinct answers of a group (`answer_class`; -1: none). The shares are
exact: among m answers of one kind with rewards in rising order x_1 .. x_m, answer j gets the sum over k <= j of
(x_k - x_(k-1)) / (m - k + 1). Equal answers of reward 1 split 1 among them, so the tenth equal one adds nothing, while
a second kind of right answer is paid in full. The factor keeps the group's mean where one kind earns, whatever G is.
Rewards below 0 count as 0 in f; rows without a class keep r.

mix .5, a guess. Source: this project, from the definition of a submodular cover and of the Shapley value of a maximum
(the airport game); no single paper. mix 0 is GRPO. Kinds [0, 0, 1], rewards [1, 1, 1]: shares [.5, .5, 1]; one kind
with [0, .4, 1]: [0, .2, .8]; three of one kind with reward 1: a third each.

Shape letters: N completions, C completion tokens, G completions of a group.
"""

from typing import Any

import torch

from mmrl.algorithms.parts import part
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.section import Probability

NEUTRAL: dict[str, Any] = {"mix": 0.0}


class Plugin:
    """classes: name of the part. mix: weight of the share."""

    def __init__(self, *, classes: str = "answer_class", mix: Probability = 0.5) -> None:
        self._classes, self._mix = classes, mix

    def shape_rewards(self, batch: RolloutBatch, rewards_N: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        classes_N = part(batch, self._classes, option="submodular's option 'classes'")
        shaped_N = rewards_N.double().clone()
        if not self._mix:
            return shaped_N, None
        for gid in batch.gid_N.unique().tolist():
            rows = ((batch.gid_N == gid) & ~classes_N.isnan() & ~rewards_N.isnan()).nonzero().flatten()
            if not len(rows):
                continue
            value_G, class_G = rewards_N[rows].double().clamp(min=0.0), classes_N[rows]
            share_G = torch.where(class_G >= 0, _shares(value_G, class_G), 0.0)
            earning = len(class_G[(class_G >= 0) & (value_G > 0)].unique())
            share_G = share_G * len(rows) / max(earning, 1)
            shaped_N[rows] = (1 - self._mix) * rewards_N[rows].double() + self._mix * share_G
        return shaped_N, None


def _shares(value_G: torch.Tensor, class_G: torch.Tensor) -> torch.Tensor:
    """Shapley values of f, class by class."""
    share_G = torch.zeros_like(value_G)
    for kind in class_G.unique().tolist():
        members = (class_G == kind).nonzero().flatten()
        value_M, order = value_G[members].sort()
        rise_M = value_M - torch.nn.functional.pad(value_M[:-1], (1, 0))
        left_M = torch.arange(len(members), 0, -1)
        share_G[members[order]] = (rise_M / left_M).cumsum(0)
    return share_G
