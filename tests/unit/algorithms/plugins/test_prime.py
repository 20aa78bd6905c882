"""PRIME: implicit process rewards beside the outcome."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from makers.plugin_values import advantages, grid, per_token, plugin, scored_batch, with_spans

from mmrl.algorithms.beside import ModelBeside

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
    assert found([1, 1], rows, process_coef=1.0, norm="none") == [
        pytest.approx(row, abs=1e-3) for row in whitened(returns)
    ]


def test_the_outcome_stands_at_the_last_token_so_every_token_has_it_in_its_return():
    rows = [[0.0, 0.0], [0.0]]
    assert found([1, 0], rows, outcome_coef=3.0) == whitened([[3.0, 3.0], [-3.0]])


def test_a_row_without_the_column_has_the_outcome_alone_and_an_unscored_one_nothing():
    nan = float("nan")
    rows = [[nan, nan], [0.2], [0.9]]
    assert found([1, 0, nan], rows) == [*whitened([[1.0, 1.0], [-1.0]]), [0.0]]


def test_process_rewards_are_divided_by_the_largest_return_of_the_step():
    ratio = [m - r for m, r in zip(MODEL, REFERENCE, strict=True)]
    # beta * ratio: [.01, .025, -.05], returns -.015, -.025, -.05; and .02: the largest is .05.
    process = [[0.2, 0.5, -1.0], [0.4]]
    means = [-0.1, 0.4]
    left_out = [[v * 2 - sum(means) for v in row] for row in process]
    returns = [[sum(left_out[0]), sum(left_out[0][1:]), left_out[0][2]], left_out[1]]
    rows = [ratio, [0.4]]
    # Both rewards are 1, so the outcome's share is 0.
    assert found([1, 1], rows) == [
        pytest.approx(row, abs=1e-3) for row in whitened([[5 * v for v in r] for r in returns])
    ]
    assert found([1, 1], rows, beta=0.5) == [pytest.approx(row, abs=1e-3) for row in found([1, 1], rows)]


def test_a_models_log_probs_less_those_of_the_reference_are_the_column():
    batch = scored_batch([1, 0], lengths=[3, 1])
    given = {"model:prime": grid([MODEL, [-0.3]]), "model:prime_reference": grid([REFERENCE, [-0.7]])}
    expected = found([1, 0], [[m - r for m, r in zip(MODEL, REFERENCE, strict=True)], [0.4]])
    used = plugin("prime", model="prm", reference="base")
    assert (used.models, used.needs) == (
        {"prime": ModelBeside("prm", 1e-6), "prime_reference": ModelBeside("base")},
        {"model:prime", "model:prime_reference"},
    )
    assert per_token(advantages(used, replace(batch, meta=given)), batch) == [
        pytest.approx(row, abs=1e-4) for row in expected
    ]
    used = plugin("prime", model="prm", lr=None)
    assert (used.models, used.needs) == ({"prime": ModelBeside("prm")}, {"model:prime", "ref"})
    against_start = replace(batch, meta={"model:prime": given["model:prime"]}, ref_NC=given["model:prime_reference"])
    assert per_token(advantages(used, against_start), batch) == [pytest.approx(row, abs=1e-4) for row in expected]


def test_the_model_learns_the_outcome_from_the_sum_of_its_log_ratios():
    batch = scored_batch([1, 0, float("nan"), 3], lengths=[3, 3, 3, 3])
    batch = replace(batch, meta={"model:prime_reference": grid([REFERENCE] * 4)})
    logprobs_NC = grid([MODEL] * 4).requires_grad_()
    loss_N = plugin("prime", model="prm", reference="base").hooks["model_loss"]("prime", logprobs_NC, batch)
    # p = sigmoid(.05 * -.3) = .49625: -ln p, -ln (1 - p); none where unscored; a reward above 1 counts as 1.
    assert loss_N.tolist() == pytest.approx([0.700675, 0.685675, 0.0, 0.700675], abs=1e-5)
    loss_N.sum().backward()
    # d loss / d log p = beta (p - y)
    assert logprobs_NC.grad is not None
    assert logprobs_NC.grad[:, 0].tolist() == pytest.approx([-0.0251875, 0.0248125, 0.0, -0.0251875], abs=1e-6)
    assert torch.equal(logprobs_NC.grad[:, :1].expand(-1, 3), logprobs_NC.grad)
