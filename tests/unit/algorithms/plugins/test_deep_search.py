"""DeepSearch: which places of a tree go on, when the search ends, and the credit of nodes."""

import pytest
import torch
from makers.forked import Engine, batch_of
from makers.plugin_values import advantages, per_token, plugin

from mmrl.algorithms.plugins.deep_search import _score

SMALL = {"stretch": 2, "children": 1, "expand": 1}


def searched(rows, rewards, more=(), gid=None, logprobs=None, **options):
    engine = Engine(more)
    batch = batch_of(rows, rewards, gid=gid, logprobs=logprobs)
    return plugin("deep_search", **{**SMALL, **options}).hooks["second_round"](batch, engine), engine


def test_the_score_of_a_place():
    assert _score((0.4, 0.4, 0.2), 1.0, 0.5, 0.5) == pytest.approx(0.6461, abs=1e-4)
    assert _score((0.4, 0.4, 0.2), 0.0, 0.2, 1.0) == pytest.approx(0.28)


def test_the_best_place_of_the_whole_frontier_goes_on():
    """Rewards .1 and .4: by value the second completion; then its later place, not the first completion's."""
    rows = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    only_value = {"surprise_weight": 0.0, "depth_weight": 0.0}
    _, engine = searched(rows, [0.1, 0.4], rounds=2, **only_value)
    assert [prefix for _, prefix in engine.asked] == [(6, 7), (6, 7, 8, 9)]
    only_surprise = {"value_weight": 0.0, "surprise_weight": 0.4, "depth_weight": 0.0}
    surprising = [[-1.0, -1.0, -3.0, -3.0, -1.0], [-2.0] * 5]
    _, engine = searched(rows, [0.1, 0.4], logprobs=surprising, rounds=1, expand=3, **only_surprise)
    assert [prefix for _, prefix in engine.asked] == [(1, 2, 3, 4), (6, 7), (6, 7, 8, 9)]


def test_the_search_ends_with_a_right_answer_and_goes_on_elsewhere():
    rows = [[1, 2, 3, 4, 5], [4, 5, 6, 7, 8]]
    found, engine = searched(rows, [0.0, 0.0], [1.0, 0.0, 0.0], gid=[0, 1], rounds=3)
    assert [gid for gid, _ in engine.asked] == [0, 1, 1]
    assert found.gid_N.tolist() == [0, 1, 0, 1, 1]
    assert searched(rows, [1.0, 0.0], rounds=3)[1].asked == []


def test_a_place_is_expanded_once_also_where_completions_share_it():
    found, engine = searched([[1, 2, 3, 4, 5]], [0.0], rounds=3, value_weight=0.0, surprise_weight=0.0)
    assert [prefix for _, prefix in engine.asked] == [(1, 2, 3, 4), (1, 2)]
    assert found.meta["tree_start"].tolist() == [0, 4, 2]


def test_credit_is_the_value_of_a_node_over_the_root():
    batch = batch_of([[1, 2], [1, 3], [4, 5], [4, 6]], [1.0, 0.0, 0.0, 0.0], meta={"tree": torch.tensor([0, 0, 1, 1])})
    found = per_token(advantages(plugin("deep_search"), batch), batch)
    assert found == [[0.25, 0.75], [0.25, -0.25], [-0.25, -0.25], [-0.25, -0.25]]
    equal = batch_of([[1], [2]], [1.0, 1.0])
    assert per_token(advantages(plugin("deep_search"), equal), equal) == [[0.0], [0.0]]
