"""Gates and the four ways to combine parts, on numbers worked out by hand."""

import math

import numpy as np
import pytest

from mmrl.scoring.combine import PartRule, TaskRule, rewards_of_group, task_scores_of_group

NAN = math.nan


def rule(*parts, **keywords):
    return TaskRule(tuple(PartRule(column, **part) for column, part in enumerate(parts)), **keywords)


def rewards(values, found):
    return rewards_of_group(np.array(values, dtype=float), found)


def equal(found, expected):
    np.testing.assert_allclose(found, expected, atol=5e-5)


def test_the_sum_is_weighted_and_a_part_of_weight_0_takes_no_part():
    parts = rule({}, {"weight": 0.2}, {"weight": 0.0})
    equal(rewards([[0.5, 1, 9], [1, NAN, 1], [1, 0, NAN]], parts), [0.7, NAN, 1.0])


def test_a_closed_gate_makes_the_others_0_and_keeps_its_own():
    parts = rule({"weight": 0.8}, {"weight": 0.2, "gate": 5e-324, "is_format": True})
    values = [[1, 1], [0, 1], [1, 0], [NAN, 0], [1, NAN]]
    equal(rewards(values, parts), [1.0, 0.2, 0.0, NAN, NAN])
    equal(task_scores_of_group(np.array(values, dtype=float), parts), [1, 0, 0, NAN, NAN])


def test_a_gate_with_a_least_value_and_no_weight():
    parts = rule({"weight": 1.0}, {"weight": 0.0, "gate": 0.5})
    equal(rewards([[0.9, 0.49], [0.9, 0.5], [0.9, NAN]], parts), [0.0, 0.9, NAN])


def test_two_gates_close_the_others_but_not_each_other():
    parts = rule({}, {"gate": 0.5}, {"gate": 0.5})
    equal(rewards([[1, 1, 0], [1, 0, 0], [1, 1, 1]], parts), [1.0, 0.0, 3.0])


def test_a_product():
    parts = rule({}, {}, {"weight": 0.0}, combine="product")
    equal(rewards([[0.5, 0.4, 0], [1, 0, 1], [NAN, 1, 1]], parts), [0.2, 0.0, NAN])
    with_format = rule({}, {"is_format": True}, combine="product")
    equal(task_scores_of_group(np.array([[0.5, 0.0]]), with_format), [0.5])


def test_unscored_parts_may_be_left_out_and_their_weight_goes_to_the_others():
    parts = rule({"weight": 3.0}, {"weight": 1.0}, leaves_out=True)
    equal(rewards([[0.5, 1], [0.5, NAN], [NAN, 1], [NAN, NAN]], parts), [2.5, 2.0, 4.0, NAN])
    product = rule({}, {}, combine="product", leaves_out=True)
    equal(rewards([[0.5, NAN], [NAN, NAN]], product), [0.5, NAN])


def test_gdpo_worked_numbers():  # methods/rl.md 1.1
    parts = rule({}, {}, combine="normalised_sum")
    equal(rewards([[1, 1], [0, 1], [1, 0], [0, 1]], parts), [1.3658, -0.3660, -0.6338, -0.3660])


def test_a_constant_part_changes_nothing_in_a_normalised_sum():
    alone = rewards([[1], [0], [1], [0]], rule({}, combine="normalised_sum"))
    beside = rewards([[1, 1], [0, 1], [1, 1], [0, 1]], rule({}, {}, combine="normalised_sum"))
    equal(alone, beside)
    equal(rewards([[1, NAN], [0, 1], [1, 1]], rule({}, {}, combine="normalised_sum")), [NAN, -1.1545, 0.5773])


def test_the_first_part_decides_then_the_next_within_its_tolerance():
    values = np.array([[1, 0.9, 0.2], [1, 0.85, 0.6], [0, 1, 1], [1, 0.5, 0.9]])

    def with_tolerances(*tolerances: float) -> np.ndarray:
        return rewards(values, rule(*({"tolerance": t} for t in tolerances), combine="ordered"))

    equal(with_tolerances(0, 0.1, 0), [2 / 3, 1, 0, 1 / 3])
    equal(with_tolerances(0, 0, 0), [1, 2 / 3, 0, 1 / 3])
    equal(with_tolerances(1, 1, 0), [0, 1 / 3, 1, 2 / 3])  # only the third part tells them apart


def test_an_unscored_part_takes_a_completion_out_of_the_order():
    equal(rewards([[1.0], [NAN], [0.0]], rule({}, combine="ordered")), [1.0, NAN, 0.0])


@pytest.mark.parametrize("combine", ["sum", "product", "ordered", "normalised_sum"])
def test_no_completions(combine):
    assert rewards(np.zeros((0, 2)), rule({}, {}, combine=combine)).shape == (0,)
