"""Distance of ordered trees: against the plain recursion on small ones, and its properties."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmrl.scoring.tree_distance import Postorder, tree_distance

# A tree is (label, children).
TREES = st.recursive(
    st.tuples(st.sampled_from("abc"), st.just(())),
    lambda tree: st.tuples(st.sampled_from("abc"), st.lists(tree, max_size=3).map(tuple)),
    max_leaves=5,
)
RENAME = {"ab": 0.3, "ac": 1.0, "bc": 0.7}


def rename(one, other):
    return 0.0 if one == other else RENAME["".join(sorted(one + other))]


@functools.cache
def recursion(forest, other):
    """The definition: the last tree's root is removed, inserted, or paired with the other's."""
    if not forest or not other:
        return sum(map(size, forest)) + sum(map(size, other))
    (label, below), (other_label, other_below) = forest[-1], other[-1]
    return min(
        recursion(forest[:-1] + below, other) + 1,
        recursion(forest, other[:-1] + other_below) + 1,
        recursion(below, other_below) + recursion(forest[:-1], other[:-1]) + rename(label, other_label),
    )


def size(tree):
    return 1 + sum(map(size, tree[1]))


def postorder(tree):
    labels, children = [], []

    def visit(node):
        below = [visit(child) for child in node[1]]
        labels.append(node[0])
        children.append(below)
        return len(labels) - 1

    visit(tree)
    return labels, Postorder.of(children)


def distance(one, other):
    (labels, order), (other_labels, other_order) = postorder(one), postorder(other)
    costs = np.array([[rename(a, b) for b in other_labels] for a in labels])
    return tree_distance(order, other_order, costs)


def test_postorder_of_the_documented_tree():
    labels, order = postorder(("a", (("b", (("c", ()),)), ("d", ()))))
    assert labels == ["c", "b", "d", "a"]
    assert order.leftmost_N.tolist() == [0, 0, 2, 0]
    assert order.height_N.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (("a", (("b", ()), ("c", ()))), ("a", (("b", ()),)), 1.0),
        (("a", (("b", ()), ("c", ()))), ("a", (("b", ()), ("b", ()))), 0.7),
        (("a", (("b", (("c", ()),)),)), ("a", (("c", ()),)), 1.0),
        (("a", ()), ("a", ()), 0.0),
    ],
)
def test_worked_distances(one, other, wanted):
    assert distance(one, other) == pytest.approx(wanted)


@settings(max_examples=150, deadline=None)
@given(TREES, TREES)
def test_equals_the_recursion_and_is_symmetric(one, other):
    wanted = recursion((one,), (other,))
    assert distance(one, other) == pytest.approx(wanted)
    assert distance(other, one) == pytest.approx(wanted)
