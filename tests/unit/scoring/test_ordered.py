"""Lexicographic ranks inside a group, and quantile dominance."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mmrl.scoring import ordered
from mmrl.scoring.ordered import dominance, ordered_scores, survived, undominated

NAN = float("nan")
small = st.integers(-4, 4).map(lambda n: n / 4)
groups = st.tuples(st.integers(1, 9), st.integers(1, 3)).flatmap(lambda shape: arrays(float, shape, elements=small))


def test_the_first_objective_that_differs_decides():
    values = np.array([[1.0, 0.4], [1.0, 0.7], [0.0, 1.0], [0.5, 0.0]])
    assert ordered_scores(values).tolist() == pytest.approx([2 / 3, 1.0, 0.0, 1 / 3])


def test_a_difference_within_the_tolerance_leaves_it_to_the_next_objective():
    values = np.array([[0.98, 0.9], [1.0, 0.4], [0.9, 1.0]])
    assert ordered_scores(values).tolist() == [0.5, 1.0, 0.0]
    assert ordered_scores(values, tolerances=[0.05, 0.0]).tolist() == [1.0, 0.5, 0.0]


def test_tiers_start_at_their_best_so_a_chain_of_small_steps_is_no_tie():
    values = np.array([[1.0], [0.92], [0.84], [0.76]])
    assert ordered_scores(values, tolerances=[0.1]).tolist() == pytest.approx([5 / 6, 5 / 6, 1 / 6, 1 / 6])


def test_unscored_completions_take_no_part():
    scores = ordered_scores(np.array([[1.0, NAN], [0.0, 0.0], [1.0, 0.0]]))
    assert np.isnan(scores[0]) and scores[1:].tolist() == [0.0, 1.0]
    assert np.isnan(ordered_scores(np.array([[NAN]]))).all()


def test_ties_alone_and_infinite_values():
    assert ordered_scores(np.array([[3.0]])).tolist() == [0.5]
    assert ordered_scores(np.ones((4, 2))).tolist() == [0.5] * 4
    infinite = np.array([[np.inf], [np.inf], [-np.inf]])
    assert ordered_scores(infinite, tolerances=[0.1]).tolist() == [0.75, 0.75, 0.0]
    assert ordered_scores(np.empty((0, 2))).tolist() == []


@pytest.mark.parametrize("tolerances", [[0.1], [0.1, -0.1], [0.1, NAN]])
def test_tolerances_that_are_none(tolerances):
    with pytest.raises(ValueError, match="2 finite numbers"):
        ordered_scores(np.zeros((3, 2)), tolerances=tolerances)


def test_an_array_that_is_no_group():
    with pytest.raises(ValueError, match=r"\(G, K\)"):
        ordered_scores(np.zeros(3))


@given(groups, st.sampled_from([0.0, 0.25, 0.6]))
def test_better_or_equal_everywhere_is_never_ranked_lower(values, tolerance):
    scores = ordered_scores(values, tolerances=[tolerance] * values.shape[1])
    for a in range(len(values)):
        for b in range(len(values)):
            if (values[a] >= values[b]).all():
                assert scores[a] >= scores[b]


@given(groups, st.randoms(use_true_random=False))
def test_the_mean_is_a_half_and_the_order_of_the_group_does_not_matter(values, random):
    order = random.sample(range(len(values)), len(values))
    scores = ordered_scores(values)
    assert scores.mean() == pytest.approx(0.5)
    assert ordered_scores(values[order]).tolist() == scores[order].tolist()


@given(groups)
def test_only_the_order_of_the_values_matters(values):
    assert ordered_scores(values**3 * 7 - 2).tolist() == ordered_scores(values).tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=8))
def test_without_tolerance_the_order_is_that_of_tuples(rows):
    beaten = [(sum(a > b for b in rows) + (sum(a == b for b in rows) - 1) / 2) / (len(rows) - 1) for a in rows]
    assert ordered_scores(np.array(rows, dtype=float)).tolist() == pytest.approx(beaten)


def test_docstring_examples():
    result = doctest.testmod(ordered)
    assert result.attempted > 0 and result.failed == 0


Z0, Z1, Z2 = [-1.0, 0, 0, 0], [-5.0, -4, -1, 0], [0.0, 0, 0, 0]


def test_quantile_dominance_of_the_worked_numbers():
    z0, z1, z2 = map(np.array, (Z0, Z1, Z2))
    assert (dominance(z2, z0), dominance(z2, z1), dominance(z0, z1)) == (0.25, 0.75, 0.75)
    assert undominated(np.array([Z0, Z1, Z2])).tolist() == [True, False, True]


def test_a_margin_and_a_threshold_make_dominance_rarer():
    values = np.array([Z0, Z1, Z2])
    assert undominated(values, margin=4).tolist() == [True] * 3  # at one quantile of four it is above by 5
    assert undominated(values, threshold=0.75).tolist() == [True] * 3
    assert undominated(values, threshold=0.2).tolist() == [False, False, True]


def test_objectives_are_asked_in_their_order():
    progress = [[5.0] * 4, [9.0] * 4, [3.0] * 4]
    assert survived(np.array([[Z0, Z1, Z2], progress])).tolist() == [2, 0, 1]
    assert survived(np.array([progress, [Z0, Z1, Z2]])).tolist() == [0, 2, 0]


def test_a_circle_of_dominance_decides_nothing():
    circle = np.array([[2.0, 3, 7], [1, 5, 6], [3, 4, 5]])
    assert not undominated(circle).any()
    assert survived(np.array([circle, [[1.0] * 3, [0] * 3, [0] * 3]])).tolist() == [2, 1, 1]
