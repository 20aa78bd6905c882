"""Completions that were forked from one another: how a second round makes them, and the values of their nodes.

A tree begins with one sampled completion. A fork is a place in it from which more completions go on; rows of one tree
that have the same tokens up to a place are there one node, whose value is the mean reward of the rows below. Columns of
the batch:

    tree         (N,) the tree of a row, -1: one of its own, which no row shares
    tree_start   (N,) how many first tokens a row has from the one it was forked from

Shape letters: N completions, C completion tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mmrl.algorithms.advantages import group_stats
from mmrl.algorithms.parts import joined
from mmrl.algorithms.rollout_batch import RolloutBatch

TREE, START = "tree", "tree_start"


@dataclass(frozen=True, slots=True)
class Fork:
    """Completions go on from the first `place` tokens of a row, then with `token`, if one is given."""

    row: int
    place: int
    token: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """Per token the node that it belongs to: its value, the value of the node before it, and how many rows are below.

    root_N: the value before the first token, the mean of the group.
    """

    value_NC: torch.Tensor
    parent_NC: torch.Tensor
    leaves_NC: torch.Tensor
    root_N: torch.Tensor


def planted(batch: RolloutBatch) -> RolloutBatch:
    """The batch with each row the beginning of a tree."""
    columns = {TREE: torch.arange(len(batch)), START: torch.zeros(len(batch), dtype=torch.int64)}
    return replace(batch, meta={**batch.meta, **columns})


def grown(batch: RolloutBatch, generate: Callable[..., RolloutBatch], forks: Sequence[Fork], *, n: int) -> RolloutBatch:
    """The planted batch with n completions behind each fork, as rows at its end, in the order of the forks."""
    if not forks:
        return batch
    more = branches(batch, generate, forks, n=n)
    return joined(batch, more)


def searched(
    batch: RolloutBatch,
    generate: Callable[..., RolloutBatch],
    choose: Callable[[RolloutBatch, set[tuple[int, int]]], list[Fork]],
    *,
    rounds: int,
    n: int,
) -> RolloutBatch:
    """The batch as trees, grown in so many rounds by n completions behind each of the forks that `choose` names. It is
    given the places (row, tokens) that are forks already.
    """
    batch = planted(batch)
    done: set[tuple[int, int]] = set()
    for _ in range(rounds):
        forks = choose(batch, done)
        done |= {(fork.row, fork.place) for fork in forks}
        batch = grown(batch, generate, forks, n=n)
    return batch


def with_signal(advantage_NC: torch.Tensor, rewards_N: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
    """float32; 0 off the tokens, of unscored completions, and in groups of equal rewards."""
    is_constant_N = group_stats(rewards_N, batch.gid_N).constant_N
    has_signal_NC = batch.mask_NC & ~(is_constant_N | rewards_N.isnan())[:, None]
    return torch.where(has_signal_NC, advantage_NC, 0.0).float()


def branches(batch: RolloutBatch, generate: Callable[..., Any], forks: Sequence[Fork], *, n: int) -> RolloutBatch:
    """n completions behind each fork, in the order of the forks, with their columns."""
    rows = torch.tensor([fork.row for fork in forks])
    prefixes = [
        (*batch.ids_NC[fork.row, : fork.place].tolist(), *(() if fork.token is None else (fork.token,)))
        for fork in forks
    ]
    more = generate(batch.gid_N[rows].tolist(), n=n, prefix_ids=[(prefix,) * n for prefix in prefixes])
    starts = torch.tensor([fork.place for fork in forks])
    columns = {TREE: batch.meta[TREE][rows].repeat_interleave(n), START: starts.repeat_interleave(n)}
    return replace(more, meta={**more.meta, **columns})


def nodes(values_N: torch.Tensor, batch: RolloutBatch) -> Nodes:
    """The nodes of all trees. values_N: of the rows; NaN stays out of the means."""
    root = group_stats(values_N, batch.gid_N)
    value_N, count_N = root.mean_N.double(), _sizes(batch.gid_N)
    parent_N, root_N = value_N, value_N
    node_N = _pairs(batch.gid_N, _trees(batch))
    grids = [torch.zeros(batch.mask_NC.shape, dtype=torch.float64) for _ in range(3)]
    for t in range(batch.mask_NC.shape[1]):
        # A completion that has ended shares no further token; -1 is no id.
        node_N = _pairs(node_N, torch.where(batch.mask_NC[:, t], batch.ids_NC[:, t], -1))
        size_N = _sizes(node_N)
        parent_N = torch.where(size_N != count_N, value_N, parent_N)
        value_N, count_N = group_stats(values_N, node_N).mean_N.double(), size_N
        for grid, column_N in zip(grids, (value_N, parent_N, count_N.double()), strict=True):
            grid[:, t] = column_N
    value_NC, parent_NC, leaves_NC = grids
    return Nodes(value_NC, parent_NC, leaves_NC, root_N)


def _trees(batch: RolloutBatch) -> torch.Tensor:
    """The tree of each row; a row without one is a tree of its own."""
    tree_N = batch.meta.get(TREE, torch.full((len(batch),), -1))
    return torch.where(tree_N < 0, -1 - torch.arange(len(batch)), tree_N)


def _pairs(first_N: torch.Tensor, second_N: torch.Tensor) -> torch.Tensor:
    """A number for each pair of values."""
    return torch.stack([first_N, second_N], 1).unique(dim=0, return_inverse=True)[1]


def _sizes(node_N: torch.Tensor) -> torch.Tensor:
    """How many rows each row's node has."""
    number_N, count_P = node_N.unique(return_inverse=True, return_counts=True)[1:]
    return count_P[number_N]
