"""DeepSearch: a tree of answers grown at the best leaf of all its frontier, with the value of each node as credit.

    frontier   ends of stretches of `stretch` tokens of a group's completions that are not expanded yet
    score      value_weight tanh(V) + surprise_weight S + depth_weight sqrt(d / D)
               V: mean reward below the stretch, S: mean -log p of its tokens, d: its number, D: most there are
    a round    the `expand` places of a group's whole frontier with the highest scores get `children` completions
               each, `rounds` times; a group that has a right answer is left
    A_t        V(node of t) - V(root)

So the search goes back to any place of the tree, not to the children of the last one alone, and gives up once solved.
`tree_credit` off: GRPO over all leaves.

stretch 256 (16384 tokens in 64 steps), value .4, surprise 0 (.4 where the source's switch for it is on), depth .01;
rounds 3, expand 2, children 2. Source: 2509.25454 and smiles724/DeepSearch@daf9067, the score and its weights read in
code. Different there: one step is expanded at a time, 8 wide, until 8 answers are there, right ones or not; V is that
of the node before; a right answer counts 1, a wrong one -1, weighted by (depth + 1) / length but at least .1 on its way
up; credit is less the mean of the other answers, not less V(root). Its replay of solved questions is `exgrpo`, its
filter of hard ones `success_filter`.

Values 1, 0, surprise .5, .2, first and second of two stretches, weights .4, .4, .2: scores .6461, .28.

Shape letters: N completions, C completion tokens.
"""

import math
from collections.abc import Callable
from typing import Any

import torch

from mmrl.algorithms.advantages import grpo
from mmrl.algorithms.parts import outcome, rows_of_groups
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.trees import START, Fork, Nodes, nodes, searched, with_signal
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeFloat, NonNegativeInt, PositiveInt

NEUTRAL: dict[str, Any] = {"rounds": 0, "tree_credit": False}


class Plugin:
    """rounds: 0: no search. threshold: the least reward of a right answer."""

    def __init__(
        self,
        *,
        rounds: NonNegativeInt = 3,
        stretch: PositiveInt = 256,
        expand: PositiveInt = 2,
        children: PositiveInt = 2,
        value_weight: NonNegativeFloat = 0.4,
        surprise_weight: NonNegativeFloat = 0.0,
        depth_weight: NonNegativeFloat = 0.01,
        tree_credit: bool = True,
        threshold: float = 0.5,
    ) -> None:
        self._rounds, self._stretch, self._expand, self._children = rounds, stretch, expand, children
        self._weights = (value_weight, surprise_weight, depth_weight)
        self._tree_credit, self._threshold = tree_credit, threshold

    def second_round(self, batch: RolloutBatch, generate: Callable[..., RolloutBatch]) -> RolloutBatch:
        if not self._rounds:
            return batch
        return searched(batch, generate, self._best, rounds=self._rounds, n=self._children)

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        if not self._tree_credit:
            return grpo(rewards_N, batch, settings)
        tree = nodes(rewards_N.double(), batch)
        return with_signal(tree.value_NC - tree.root_N[:, None], rewards_N, batch)

    def _best(self, batch: RolloutBatch, done: set[tuple[int, int]]) -> list[Fork]:
        """The places that a round expands."""
        rewards, tree = outcome(batch), nodes(outcome(batch).double(), batch)
        forks = []
        for rows in rows_of_groups(batch).values():
            if not any(rewards[row] >= self._threshold for row in rows):
                places = [place for row in rows for place in self._places(batch, row, tree) if place[1:] not in done]
                forks += [Fork(row, place) for _, row, place in sorted(places, key=_by_score)[: self._expand]]
        return forks

    def _places(self, batch: RolloutBatch, row: int, tree: Nodes) -> list[tuple[float, int, int]]:
        """(score, row, place) of the ends of a row's own stretches but the last."""
        length, start = int(batch.length_N[row]), int(batch.meta[START][row])
        deepest = max(math.ceil(batch.mask_NC.shape[1] / self._stretch), 1)
        found = []
        for number, end in enumerate(range(self._stretch, length, self._stretch), 1):
            if end > start:
                value = float(tree.value_NC[row, end - 1].nan_to_num(nan=0.0))
                surprise = -float(batch.rollout_NC[row, end - self._stretch : end].mean())
                found.append((_score(self._weights, value, surprise, number / deepest), row, end))
        return found


def _score(weights: tuple[float, float, float], value: float, surprise: float, depth: float) -> float:
    return weights[0] * math.tanh(value) + weights[1] * surprise + weights[2] * math.sqrt(depth)


def _by_score(place: tuple[float, int, int]) -> tuple[float, int, int]:
    return (-place[0], place[1], place[2])
