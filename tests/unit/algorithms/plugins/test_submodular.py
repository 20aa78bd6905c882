"""Submodular set rewards: Shapley shares of the best answer of each kind."""

import itertools

import pytest
from makers.plugin_values import plugin, scored_batch, shaped


def found(rewards, classes, mix=1.0, **columns):
    batch = scored_batch(rewards, parts={"answer_class": classes}, **columns)
    return shaped(plugin("submodular", mix=mix), batch)


def by_permutations(rewards, classes):
    """Shapley values by their definition: the mean gain of each answer over all orders."""
    orders, totals = list(itertools.permutations(range(len(rewards)))), [0.0] * len(rewards)
    for order in orders:
        best = {}
        for row in order:
            gain = max(rewards[row] - best.get(classes[row], 0.0), 0.0)
            totals[row] += gain
            best[classes[row]] = best.get(classes[row], 0.0) + gain
    return [total / len(orders) for total in totals]


@pytest.mark.parametrize(
    ("rewards", "classes", "shares"),
    [
        ([1.0, 1.0, 1.0], [0, 0, 1], [0.5, 0.5, 1.0]),
        ([0.0, 0.4, 1.0], [0, 0, 0], [0.0, 0.2, 0.8]),
        ([1.0, 1.0, 1.0], [0, 0, 0], [1 / 3] * 3),
        ([0.9, 0.3, 0.9, 0.5], [0, 0, 1, 0], None),
    ],
)
def test_shares(rewards, classes, shares):
    shares = shares or by_permutations(rewards, classes)
    assert by_permutations(rewards, classes) == pytest.approx(shares)
    kinds = len({c for r, c in zip(rewards, classes, strict=True) if r > 0})
    wanted = [round(share * len(rewards) / kinds, 4) for share in shares]
    assert found(rewards, [float(c) for c in classes]) == wanted


def test_it_is_mixed_with_the_reward():
    assert found([1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 2.0], mix=0.5) == [1.0, 1.0, 1.5, 0.0]
    assert found([1.0, 0.5], [0.0, 0.0], mix=0.0) == [1.0, 0.5]


def test_rows_without_an_answer_and_other_groups():
    nan = float("nan")
    assert found([1.0, 0.0, nan, 0.7], [0.0, -1.0, 0.0, nan]) == [2.0, 0.0, pytest.approx(nan, nan_ok=True), 0.7]
    assert found([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0], gid=[0, 0, 1, 1]) == [1.0, 1.0, 1.0, 1.0]
    assert found([-1.0, 1.0], [0.0, 1.0]) == [0.0, 2.0]
