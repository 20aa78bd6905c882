"""Edit distance of ordered trees, vectorised. Pure.

Shape letters: N nodes of the one tree, M of the other; I, J of them that are roots of a batch of subtrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Postorder:
    """A tree by its nodes in postorder. leftmost_N: number of the first leaf below each node; its own, of a leaf.

    height_N: edges down to the deepest node below. The tree a(b(c), d) is c b d a: leftmost 0 0 2 0, height 0 1 0 2.
    """

    leftmost_N: np.ndarray
    height_N: np.ndarray

    @classmethod
    def of(cls, children: Sequence[Sequence[int]]) -> Postorder:
        """From the children of every node, nodes in postorder."""
        leftmost, height = [], []
        for node, below in enumerate(children):
            leftmost.append(leftmost[below[0]] if below else node)
            height.append(1 + max(height[child] for child in below) if below else 0)
        return cls(np.array(leftmost, dtype=np.int64), np.array(height, dtype=np.int64))

    def keyroots(self) -> dict[int, np.ndarray]:
        """Nodes with no ancestor of the same first leaf, by height."""
        _, first = np.unique(self.leftmost_N[::-1], return_index=True)
        roots = len(self.leftmost_N) - 1 - first
        heights = self.height_N[roots]
        return {int(height): np.sort(roots[heights == height]) for height in np.unique(heights)}


def tree_distance(one: Postorder, other: Postorder, rename_NM: np.ndarray) -> float:
    """Least cost of insertions and deletions (1 each) and renamings (rename_NM) that turn one tree into the other.

    rename_NM: of 0 to 2, for no renaming is dearer than a deletion and an insertion.

    Zhang and Shasha 1989: distances of all pairs of subtrees whose roots are keyroots, small ones first. Pairs of
    equal heights need nothing of each other and are computed together, a row of all their tables at a time; within a
    row, insertions run along by a cumulative minimum. About n * m steps for tables of n and m cells.

    For a(b, c) and a(b): 1, the node c. For a(b, c) and a(b, d): rename[c, d].
    """
    distance_NM = np.zeros_like(rename_NM, dtype=np.float64)
    batches = [
        (i_height + j_height, roots_I, roots_J)
        for i_height, roots_I in one.keyroots().items()
        for j_height, roots_J in other.keyroots().items()
    ]
    for heights, roots_I, roots_J in sorted(batches, key=lambda batch: batch[0]):
        if heights == 0:  # two leaves, most pairs of a table
            distance_NM[np.ix_(roots_I, roots_J)] = rename_NM[np.ix_(roots_I, roots_J)]
            continue
        a, b = _Subtrees.of(one, roots_I), _Subtrees.of(other, roots_J)
        if a.width <= b.width:
            _fill(a, b, rename_NM, distance_NM)
        else:
            _fill(b, a, rename_NM.T, distance_NM.T)
    return float(distance_NM[-1, -1])


@dataclass(frozen=True, slots=True, eq=False)
class _Subtrees:
    """Subtrees side by side, W nodes wide, narrower ones padded with their last node.

    node_IW: the nodes in postorder. before_IW: how many nodes of the subtree stand before the node's first leaf.
    on_path_IW: whether that leaf is the subtree's. is_node_IW: False on padding.
    """

    node_IW: np.ndarray
    before_IW: np.ndarray
    on_path_IW: np.ndarray
    is_node_IW: np.ndarray

    @property
    def width(self) -> int:
        return self.node_IW.shape[1]

    @classmethod
    def of(cls, tree: Postorder, roots_I: np.ndarray) -> _Subtrees:
        start_I1 = tree.leftmost_N[roots_I][:, None]
        wanted_IW = start_I1 + np.arange((roots_I[:, None] - start_I1).max() + 1)
        node_IW = np.minimum(wanted_IW, roots_I[:, None])
        before_IW = tree.leftmost_N[node_IW] - start_I1
        return cls(node_IW, before_IW, before_IW == 0, wanted_IW <= roots_I[:, None])


def _fill(a: _Subtrees, b: _Subtrees, rename_NM: np.ndarray, distance_NM: np.ndarray) -> None:
    """Write the distances of all pairs of nodes on the left paths of the pairs of subtrees.

    The table of a pair holds, at (x, y), the distance of the forests of the first x and y nodes, less x + y: so an
    insertion and a deletion change nothing, and a row is a cumulative minimum. Letters: A and B nodes of subtrees.
    """
    both_IAJB = a.on_path_IW[:, :, None, None] & b.on_path_IW
    step_A11, step_B = np.arange(a.width)[:, None, None], np.arange(b.width)
    # Where the last two nodes are paired: both trees whole (rename them), or the two subtrees (of known distance).
    row_IAJB = np.where(both_IAJB, step_A11, a.before_IW[:, :, None, None])
    column_IAJB = np.where(both_IAJB, step_B, b.before_IW)
    nodes = a.node_IW[:, :, None, None], b.node_IW
    gain_IAJB = np.where(both_IAJB, rename_NM[nodes], distance_NM[nodes])
    gain_IAJB = gain_IAJB + (row_IAJB + column_IAJB - step_A11 - step_B - 2)

    shape = (a.width + 1, len(a.node_IW), len(b.node_IW), b.width + 1)
    table = np.zeros(shape)
    pair_I1J1 = np.arange(shape[1])[:, None, None, None] * shape[2] + np.arange(shape[2])[:, None]
    from_AIJB = ((row_IAJB * shape[1] * shape[2] + pair_I1J1) * shape[3] + column_IAJB).swapaxes(0, 1)
    gain_AIJB = np.ascontiguousarray(gain_IAJB.swapaxes(0, 1))
    for step in range(a.width):
        row_IJB = table[step + 1, :, :, 1:]
        np.add(table.take(from_AIJB[step]), gain_AIJB[step], out=row_IJB)
        np.minimum(row_IJB, table[step, :, :, 1:], out=row_IJB)
        np.minimum(row_IJB, 0.0, out=row_IJB)
        np.minimum.accumulate(row_IJB, axis=-1, out=row_IJB)

    written_IAJB = both_IAJB & a.is_node_IW[:, :, None, None] & b.is_node_IW
    i, x, j, y = np.nonzero(written_IAJB)
    distance_NM[a.node_IW[i, x], b.node_IW[j, y]] = table[x + 1, i, j, y + 1] + x + y + 2
