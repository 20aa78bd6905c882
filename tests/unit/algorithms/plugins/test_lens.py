"""LENS: penalties by confidence, in mixed groups and in those without a right answer."""

import math

import torch
from makers.plugin_values import advantages, per_row, plugin, scored_batch


def found(rewards, confidence, **options):
    old_NC = torch.tensor([[math.log(p)] for p in confidence], dtype=torch.float64)
    return per_row(advantages(plugin("lens", **options), scored_batch(rewards, old_NC=old_NC)))


def test_a_mixed_group():
    assert found([1, 0, 0, 0], [0.5, 0.6, 0.3, 0.1]) == [1.4959, -0.5976, -0.4784, -0.4199]


def test_a_group_without_a_right_answer_pushes_confident_errors_down_and_others_up():
    assert found([0, 0, 0, 0], [0.6, 0.3, 0.2, 0.1]) == [-0.0371, 0.0045, 0.0129, 0.0197]


def test_equal_confidence_and_no_weight_give_nothing():
    assert found([0, 0, 0, 0], [0.4] * 4) == [0.0] * 4
    assert found([0, 0, 0, 0], [0.6, 0.3, 0.2, 0.1], alpha=0.0) == [0.0] * 4
    assert found([1, 1, 1, 1], [0.6, 0.3, 0.2, 0.1]) == [0.0] * 4


def test_without_penalty_it_is_grpo():
    assert found([1, 0, 0, 1], [0.6, 0.3, 0.2, 0.1], penalty=0.0) == [0.866, -0.866, -0.866, 0.866]


def test_the_order_of_penalties_is_that_of_confidence_and_unscored_rows_stay_out():
    values = found([0, 0, 0, float("nan")], [0.1, 0.5, 0.3, 0.9])
    assert values[0] > values[2] > values[1]
    assert values[3] == 0.0
