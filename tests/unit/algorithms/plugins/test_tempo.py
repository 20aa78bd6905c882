"""TEMPO: temporal differences on the tree of a group's shared beginnings."""

import torch
from makers.plugin_values import advantages, per_token, plugin, scored_batch

IDS = [[5, 6, 7, 1], [5, 6, 8, 1], [9, 6, 7, 1], [4, 6, 7, 1]]


def found(rewards, ids, *, lengths=None, **options):
    batch = scored_batch(rewards, lengths=lengths or [len(row) for row in ids], ids_NC=torch.tensor(ids))
    return per_token(advantages(plugin("tempo", **options), batch), batch, 3)


def test_the_worked_tree():
    rows = found([1, 0, 1, 1], IDS)
    assert rows[:3] == [[0.0, 0.5, 1.5, 0.5], [-2.0, -1.5, -2.5, -1.5], [1.0, 0.5, 0.5, 0.5]]


def test_the_differences_add_up_to_the_rows_lead():
    row = found([1, 0, 1, 1], IDS)[0]
    assert round(sum(value * 0.5 - 0.25 for value in row), 3) == 0.25


def test_equal_rows_and_no_weight_are_grpo():
    assert found([1, 0], [[5, 6], [5, 6]]) == [[0.707, 0.707], [-0.707, -0.707]]
    assert found([1, 0], [[5, 6], [4, 6]], coef=0.0) == [[0.707, 0.707], [-0.707, -0.707]]


def test_rows_that_differ_from_the_start_get_twice_grpos_value_there():
    assert found([1, 0], [[5, 6], [4, 6]]) == [[1.414, 0.707], [-1.414, -0.707]]


def test_a_row_that_ends_parts_from_the_one_that_goes_on():
    assert found([1, 0], [[5, 0], [5, 6]], lengths=[1, 2]) == [[0.707], [-0.707, -1.414]]


def test_equal_rewards_give_nothing_and_groups_are_trees_of_their_own():
    assert found([1, 1], [[5, 6], [4, 6]]) == [[0.0, 0.0], [0.0, 0.0]]
    batch = scored_batch([1, 0, 0, 1], lengths=[1] * 4, gid=[0, 0, 1, 1], ids_NC=torch.tensor([[5], [5], [5], [5]]))
    assert per_token(advantages(plugin("tempo"), batch), batch, 3) == [[0.707], [-0.707], [-0.707], [0.707]]
