"""TreeRL: where trees fork, how many leaves they have, and what each node is worth."""

from dataclasses import replace

import pytest
import torch
from makers.forked import Engine, batch_of
from makers.plugin_values import advantages, per_token, plugin

from mmrl.algorithms.trees import nodes

RAW = {"normalise": False}


@pytest.mark.parametrize(("trees", "children", "leaves"), [(6, 2, 30), (4, 1, 12)])
def test_the_number_of_leaves(trees, children, leaves):
    batch = batch_of([[n, n, n] for n in range(trees)], [0.0] * trees)
    grown = plugin("tree_rl", children=children).hooks["second_round"](batch, Engine())
    assert len(grown) == leaves
    assert grown.meta["tree"].tolist()[:trees] == list(range(trees))
    assert set(grown.meta["tree"].unique(return_counts=True)[1].tolist()) == {leaves // trees}


def test_trees_fork_before_their_least_probable_tokens():
    logprobs = [[-1.0, -3.0, -2.0, -4.0], [-0.1, -0.2]]
    batch = batch_of([[1, 2, 3, 4], [5, 6]], [0.0, 0.0], gid=[0, 1], logprobs=logprobs)
    engine = Engine()
    grown = plugin("tree_rl", children=1).hooks["second_round"](batch, engine)
    assert engine.asked == [(0, (1, 2, 3)), (0, (1,)), (1, (5,)), (1, ())]
    assert grown.meta["tree_start"].tolist() == [0, 0, 3, 1, 1, 0]
    assert grown.meta["tree"].tolist() == [0, 1, 0, 0, 1, 1]
    assert grown.gid_N.tolist() == [0, 1, 0, 0, 1, 1]


def test_a_second_round_forks_elsewhere_and_children_only_in_what_is_their_own():
    batch = batch_of([[1, 2]], [0.0], logprobs=[[-3.0, -2.0]])
    engine = Engine()
    plugin("tree_rl", forks=1, rounds=3, children=1).hooks["second_round"](batch, engine)
    assert [prefix for _, prefix in engine.asked] == [(), (1,), ()]


def test_the_worked_values():
    """One tree: its root .5; four leaves behind [1, 1] are worth .75, four behind [1, 2] .25."""
    rows = [[1, 1, n] for n in range(4)] + [[1, 2, n] for n in range(4)]
    rewards = [1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    batch = batch_of(rows, rewards)
    batch = replace(batch, meta={"tree": torch.zeros(8, dtype=torch.int64)})
    found = per_token(advantages(plugin("tree_rl", **RAW), batch), batch)
    assert found[0] == [0.0, 0.25, 0.75]
    assert found[3] == [0.0, 0.25, -1.25]
    assert found[4] == [0.0, -0.25, 1.25]
    tree = nodes(torch.tensor(rewards), batch)
    assert tree.leaves_NC[0].tolist() == [8.0, 4.0, 1.0] and tree.parent_NC[0].tolist() == [0.5, 0.5, 0.75]


def test_leaves_are_normalised_by_the_others():
    batch = batch_of([[1], [2]], [1.0, 0.0])
    assert per_token(advantages(plugin("tree_rl"), batch), batch) == [[2.0], [-2.0]]
    assert per_token(advantages(plugin("tree_rl", **RAW), batch), batch) == [[1.0], [-1.0]]


def test_a_tree_alone_and_equal_rewards_give_nothing_and_equal_leaves_shrink():
    alone = batch_of([[1, 2, 3]], [1.0])
    assert per_token(advantages(plugin("tree_rl", **RAW), alone), alone) == [[0.0] * 3]
    equal = batch_of([[1, 2], [3, 4]], [1.0, 1.0])
    assert per_token(advantages(plugin("tree_rl", **RAW), equal), equal) == [[0.0] * 2] * 2
    twice = batch_of([[1], [1], [2], [2]], [1.0, 1.0, 0.0, 0.0], meta={"tree": torch.tensor([0, 0, 1, 1])})
    assert per_token(advantages(plugin("tree_rl", **RAW), twice), twice) == [[0.7071]] * 2 + [[-0.7071]] * 2
