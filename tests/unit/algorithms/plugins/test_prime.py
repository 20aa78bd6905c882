"""PRIME: implicit process rewards beside the outcome."""

import numpy as np
import pytest
from makers.plugin_values import advantages, per_token, plugin, scored_batch, with_spans

MODEL, REFERENCE = [-1.0, -0.5, -2.0], [-1.2, -1.0, -1.0]


def found(rewards, rows, **options):
    batch = with_spans(
        scored_batch(rewards, lengths=[len(row) for row in rows]), "implicit", [[(1, v) for v in row] for row in rows]
    )
    return per_token(advantages(plugin("prime", **options), batch), batch)


def whitened(returns):
    values = np.array([v for row in returns for v in row])
    flat = iter(((values - values.mean()) / np.sqrt(values.var(ddof=1) + 1e-8)).round(4).tolist())
    return [[next(flat) for _ in row] for row in returns]


def test_the_outcome_alone_is_rloo_whitened():
    rows = [[0.0], [0.0], [0.0], [0.0]]
    assert found([1, 0, 0, 1], rows) == whitened([[2 / 3], [-2 / 3], [-2 / 3], [2 / 3]])


def test_process_rewards_are_left_one_out_and_summed_from_each_token_on():
    ratio = [m - r for m, r in zip(MODEL, REFERENCE, strict=True)]
    assert [round(0.05 * v, 4) for v in ratio] == [0.01, 0.025, -0.05]
    rows = [ratio, [0.4]]
    # Means of .05 * ratio: -.005 and .02; r * 2 - (-.005 + .02) on each token; no outcome: both rewards are 1.
    process = [[0.02 - 0.015, 0.05 - 0.015, -0.1 - 0.015], [0.04 - 0.015]]
    returns = [[sum(process[0]), sum(process[0][1:]), process[0][2]], process[1]]
    assert found([1, 1], rows, process_coef=1.0) == [pytest.approx(row, abs=1e-3) for row in whitened(returns)]


def test_the_outcome_stands_at_the_last_token_so_every_token_has_it_in_its_return():
    rows = [[0.0, 0.0], [0.0]]
    assert found([1, 0], rows, outcome_coef=3.0) == whitened([[3.0, 3.0], [-3.0]])


def test_a_row_without_the_column_has_the_outcome_alone_and_an_unscored_one_nothing():
    nan = float("nan")
    rows = [[nan, nan], [0.2], [0.9]]
    assert found([1, 0, nan], rows) == [*whitened([[1.0, 1.0], [-1.0]]), [0.0]]
