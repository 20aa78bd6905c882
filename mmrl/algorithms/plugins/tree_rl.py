"""TreeRL (EPTree): trees grown at their least probable tokens, and each token paid by the value of its node.

    trees    the group's first completions, M of them
    a round  in each tree the `forks` least probable of its tokens; `children` completions go on from before each
    leaves   M (1 + forks * rounds * children) answers of a prompt
    A_t      (V(s) - V(root) + V(s) - V(parent of s)) / sqrt(leaves below s), s the token's node

V is the mean of the leaves' rewards below, each less the mean of the others (`normalise`: r - mean times n / (n - 1)).
A node ends where its completions part. `tree_credit` off: GRPO over all leaves. Shared tokens are trained on once for
each leaf.

M 6, forks 2, rounds 1, children 2, temperature 1.2, top-p .95. Source: THUDM/TreeRL@f0edbea, read in code.

Leaves: 6 trees of forks 2, rounds 1, children 2 are 30; 4 with children 1 are 12. Root .5, node .75 of 4 leaves under
it: (.25 + .25) / 2 = .25; its leaf of value 1: .5 + .25 = .75. A tree alone without a fork, or equal rewards: 0.

Shape letters: N completions, C completion tokens.
"""

from collections.abc import Callable
from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats, grpo
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.algorithms.trees import START, TREE, Fork, nodes, searched, with_signal
from mmrl.config.schema import AlgorithmSection
from mmrl.config.section import NonNegativeInt, PositiveInt

NEUTRAL: dict[str, Any] = {"forks": 0, "tree_credit": False}


class Plugin:
    """forks: places of a tree that are forked in a round; 0: none. children: completions behind each."""

    def __init__(
        self,
        *,
        forks: NonNegativeInt = 2,
        rounds: PositiveInt = 1,
        children: PositiveInt = 2,
        tree_credit: bool = True,
        normalise: bool = True,
    ) -> None:
        self._forks, self._rounds, self._children = forks, rounds, children
        self._tree_credit, self._normalise = tree_credit, normalise

    def second_round(self, batch: RolloutBatch, generate: Callable[..., RolloutBatch]) -> RolloutBatch:
        if not self._forks:
            return batch
        return searched(batch, generate, self._places, rounds=self._rounds, n=self._children)

    def advantage(self, rewards_N: torch.Tensor, batch: RolloutBatch, settings: AlgorithmSection) -> torch.Tensor:
        if not self._tree_credit:
            return grpo(rewards_N, batch, settings)
        values_N = rewards_N.double()
        if self._normalise:
            stats = group_stats(rewards_N, batch.gid_N)
            count_N = stats.count_N.double()
            values_N = (values_N - stats.mean_N) * count_N / (count_N - 1).clamp(min=1)
        tree = nodes(values_N, batch)
        gain_NC = 2 * tree.value_NC - tree.root_N[:, None] - tree.parent_NC
        return with_signal(gain_NC / tree.leaves_NC.clamp(min=1).sqrt(), rewards_N, batch)

    def _places(self, batch: RolloutBatch, done: set[tuple[int, int]]) -> list[Fork]:
        """Of each tree the least probable tokens that were sampled in it, and are no fork yet."""
        starts, lengths, logprobs = batch.meta[START].tolist(), batch.length_N.tolist(), batch.rollout_NC.tolist()
        of_tree: dict[int, list[tuple[float, int, int]]] = {}
        for row, tree in enumerate(batch.meta[TREE].tolist()):
            own = [(logprobs[row][t], row, t) for t in range(starts[row], lengths[row]) if (row, t) not in done]
            of_tree.setdefault(tree, []).extend(own)
        chosen = [sorted(places)[: self._forks] for places in of_tree.values()]
        return [Fork(row, place) for places in chosen for _, row, place in places]
