"""Lexicographic ranks inside a group."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mmrl.scoring.ordered import ordered_scores

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
