"""Importance weights between sampler and trainer: worked numbers of methods/rl.md 1.16, invariants, and the loss."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from makers.batches import make_batch

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.correction import off_policy_mask, rejection, rollout_correction, with_sample_size
from mmrl.config.schema import AlgorithmSection

OLD, SAMPLER = [-1.0, -2.0, -0.5], [-1.2, -3.5, -0.4]
FORMS = [(kind, level) for kind in ("truncate", "mask") for level in ("token", "sequence", "geometric")]


def settings(kind: str, level: str = "token", *, cap: float = 2.0, low: float = 0.0, **more) -> AlgorithmSection:
    return AlgorithmSection(
        rollout_correction=kind,  # type: ignore[arg-type]
        rollout_correction_level=level,  # type: ignore[arg-type]
        rollout_correction_cap=cap,
        rollout_correction_low=low,
        **more,
    )


def weights(old: list[float], sampler: list[float], section: AlgorithmSection) -> list[float]:
    mask_NC = torch.ones(1, len(old), dtype=torch.bool)
    found = rollout_correction(torch.tensor([old]), torch.tensor([sampler]), mask_NC, settings=section)
    return found.weight_NC[0].tolist()


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        (settings("truncate", cap=100), [1.2214, 4.4817, 0.9048]),
        (settings("truncate"), [1.2214, 2.0, 0.9048]),
        (settings("truncate", low=1.0), [1.2214, 2.0, 1.0]),
        (settings("mask"), [1.2214, 0.0, 0.9048]),
        (settings("mask", low=0.95), [1.2214, 0.0, 0.0]),
        (settings("truncate", "sequence", cap=100), [4.9530] * 3),
        (settings("truncate", "sequence"), [2.0] * 3),
        (settings("mask", "sequence", cap=3), [0.0] * 3),
        (settings("mask", "sequence", cap=5), [4.9530] * 3),
        (settings("mask", "geometric", cap=1.7047), [1.2214, 4.4817, 0.9048]),
        (settings("mask", "geometric", cap=1.7045), [0.0] * 3),  # the geometric mean is 1.7046
    ],
)
def test_worked_numbers(section, expected):
    assert weights(OLD, SAMPLER, section) == pytest.approx(expected, abs=5e-5)


def test_a_narrow_band_of_the_geometric_mean_rejects_a_drift_of_a_hundredth():
    """Log-ratios 0.020, -0.010, 0.015: the ratio of the mean is 1.00837."""
    old, sampler = [0.020, -0.010, 0.015], [0.0, 0.0, 0.0]
    assert weights(old, sampler, settings("mask", "geometric", low=0.999, cap=1.001)) == [0.0] * 3
    kept = weights(old, sampler, settings("mask", "geometric", low=0.999, cap=1.0084))
    assert kept == pytest.approx([math.exp(value) for value in old])


@pytest.mark.parametrize(("kind", "level"), FORMS)
def test_engines_that_agree_have_weight_one(kind, level):
    assert weights(OLD, OLD, settings(kind, level, cap=1.0, low=1.0)) == [1.0] * 3


@given(
    st.lists(st.floats(-30, 0), min_size=1, max_size=6),
    st.lists(st.floats(-30, 0), min_size=6, max_size=6),
    st.floats(1, 10),
    st.floats(0, 1),
)
def test_weights_are_within_the_bounds_and_truncation_never_zeroes(old, sampler, cap, low):
    sampler = sampler[: len(old)]
    for level in ("token", "sequence"):
        truncated = weights(old, sampler, settings("truncate", level, cap=cap, low=low))
        masked = weights(old, sampler, settings("mask", level, cap=cap, low=low))
        assert all(low * 0.9999 <= w <= cap * 1.0001 and w > 0 for w in truncated)
        for a, b in zip(truncated, masked, strict=True):
            assert b == 0 or b == pytest.approx(a, rel=1e-5)


def test_padding_and_empty_completions_do_not_matter():
    mask_NC = torch.tensor([[True, True, False], [False, False, False]])
    old, sampler = torch.tensor([[-1.0, -2.0, 9.0], [9.0] * 3]), torch.tensor([[-1.5, -2.5, 0.0], [0.0] * 3])
    found = rollout_correction(old, sampler, mask_NC, settings=settings("mask", "sequence"))
    assert found.weight_NC.tolist() == [[0.0, 0.0, 1.0], [1.0] * 3]  # exp(1) is over the cap
    assert found.outside_NC.tolist() == [[True, True, False], [False] * 3]


def test_a_sequence_ratio_of_a_thousand_tokens_stays_finite():
    assert weights([-1.0] * 1000, [-2.0] * 1000, settings("truncate", "sequence", cap=1e12)) == pytest.approx(
        [math.exp(20)] * 1000
    )


# In the loss


BATCH = make_batch([2, 4, 1, 3], rewards=[1.0, 0.0, 0.0, 1.0])
STALE = replace(BATCH, old_NC=None, rollout_NC=BATCH.rollout_NC - math.log(1.5) * BATCH.mask_NC)


def gradient(section: AlgorithmSection, batch) -> tuple[torch.Tensor, dict[str, float]]:
    algorithm = build_algorithm(section, max_new_tokens=10)
    policy_NC = (-1.0 * batch.mask_NC).requires_grad_()
    advantage_NC = algorithm.advantage(batch.rewards_NK[:, 0], batch)
    denom = algorithm.denominator(batch)
    loss, stats = algorithm.loss(policy_NC, batch, advantage_NC, torch.ones_like(advantage_NC), denom=denom)
    loss.backward()
    assert policy_NC.grad is not None
    return policy_NC.grad, algorithm.step_metrics(stats)


def test_weights_scale_the_policy_term_and_not_the_denominator():
    plain, _ = gradient(AlgorithmSection(), STALE)
    weighted, stats = gradient(settings("truncate"), STALE)
    torch.testing.assert_close(weighted, 1.5 * plain)
    assert stats["policy/correction_weight"] == pytest.approx(1.5)
    assert stats["policy/correction_ess"] == pytest.approx(1.0)
    assert stats["policy/correction_outside"] == 0
    assert stats["policy/rollout_kl"] == pytest.approx(-math.log(1.5))  # k1: this sample alone


def test_the_old_log_probs_are_asked_for_only_where_the_policy_moves_within_a_batch():
    """On policy they are the policy's own values, so the correction costs no pass over the batch."""
    assert build_algorithm(settings("mask"), max_new_tokens=10).needs == frozenset()
    assert build_algorithm(settings("mask", updates_per_batch=2), max_new_tokens=10).needs == {"old"}
    with_old, _ = gradient(settings("truncate"), replace(STALE, old_NC=-1.0 * STALE.mask_NC))
    assert torch.equal(with_old, gradient(settings("truncate"), STALE)[0])


def test_a_kl_term_is_not_weighted():
    batch = replace(STALE, ref_NC=STALE.rollout_NC)
    plain = gradient(AlgorithmSection(ref_kl_coef=0.1), batch)[0] - gradient(AlgorithmSection(), batch)[0]
    both = gradient(settings("truncate", ref_kl_coef=0.1), batch)[0] - gradient(settings("truncate"), batch)[0]
    torch.testing.assert_close(both, plain)


def test_masked_tokens_have_no_gradient_and_count_in_the_share():
    drift_NC = torch.zeros_like(BATCH.rollout_NC)
    drift_NC[1, 2] = math.log(3.0)  # one of ten tokens
    grad, stats = gradient(settings("mask"), replace(BATCH, old_NC=None, rollout_NC=BATCH.rollout_NC - drift_NC))
    assert grad[1].tolist()[2] == 0 and (grad[1, [0, 1, 3]] != 0).all()
    assert stats["policy/correction_outside"] == pytest.approx(0.1)
    assert stats["policy/correction_weight"] == pytest.approx(0.9)
    assert stats["policy/correction_ess"] == pytest.approx(0.9)


def test_the_effective_sample_size_is_of_all_micro_batches_together():
    """Weights 1, 1, 2: shares of two micro-batches add up to the means 4/3 and 2."""
    sums = {"policy/correction_weight": 1 / 3 + 3 / 3, "policy/correction_square": 1 / 3 + 5 / 3, "loss/total": 0.5}
    assert with_sample_size(sums) == {
        "policy/correction_weight": pytest.approx(4 / 3),
        "loss/total": 0.5,
        "policy/correction_ess": pytest.approx(16 / 18),
    }
    assert with_sample_size({"policy/correction_weight": 0.0, "policy/correction_square": 0.0}) == {
        "policy/correction_weight": 0.0,
        "policy/correction_ess": 0.0,
    }
    assert with_sample_size({"loss/total": 0.5}) == {"loss/total": 0.5}


def rejected(log_ratios: list[float], kind: str, **bounds: float) -> list[float]:
    section = AlgorithmSection(
        rollout_rejection=kind,  # type: ignore[arg-type]
        **{f"rollout_rejection_{name}": value for name, value in bounds.items()},  # type: ignore[arg-type]
    )
    old_NC = torch.tensor([log_ratios], dtype=torch.float64)
    return rejection(old_NC, torch.zeros_like(old_NC), torch.ones_like(old_NC).bool(), settings=section)[0].tolist()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("seq_mean_k1", 1.00837),
        ("seq_mean_k2", 0.000121),
        ("seq_mean_k3", 0.000121),
        ("seq_sum_k1", math.exp(0.025)),
        ("seq_sum_k2", 3 * 0.00012083),
        ("seq_max_k2", 0.0002),
        ("seq_max_k3", math.exp(0.02) - 1.02),
    ],
)
def test_rejection_takes_the_measure_of_a_completion(kind, value):
    log_ratios, tolerance = [0.020, -0.010, 0.015], 1e-6 + value * 1e-4
    assert rejected(log_ratios, kind, high=value + tolerance, low=value - tolerance) == [1.0] * 3
    assert rejected(log_ratios, kind, high=value - tolerance) == [0.0] * 3
    assert rejected(log_ratios, kind, high=9.0, low=value + tolerance) == [0.0] * 3


def test_the_worked_bound_rejects_the_completion_and_token_bounds_single_tokens():
    assert rejected([0.020, -0.010, 0.015], "seq_mean_k1", low=0.999, high=1.001) == [0.0] * 3
    assert rejected([0.020, -0.010, 0.015], "token_k1", low=0.995, high=1.018) == [0.0, 0.0, 1.0]
    assert rejected([0.020, -0.010, 0.015], "token_k2", high=1e-4) == [0.0, 1.0, 0.0]
    assert rejected([0.0, 0.0], "seq_sum_k3", high=1e-9) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("advantage", "drift", "delta", "kept"),
    [(-1.0, 0.25, 0.1, 0.0), (1.0, 0.25, 0.1, 1.0), (-1.0, 0.05, 0.1, 1.0), (-1.0, 9.0, math.inf, 1.0)],
)
def test_the_off_policy_mask_takes_out_negative_completions_that_drifted(advantage, drift, delta, kept):
    sampler_NC = torch.full((1, 2), -1.0)
    policy_NC = sampler_NC - torch.tensor([[2 * drift, 0.0]])  # the mean counts
    mask_NC = torch.ones(1, 2, dtype=torch.bool)
    found = off_policy_mask(policy_NC, sampler_NC, torch.full((1, 2), advantage), mask_NC, delta=delta)
    assert found.tolist() == [[kept]]


def test_rejection_and_mask_scale_the_policy_term_and_leave_count_and_regularisers():
    batch = make_batch([2, 2], rewards=[1.0, 0.0], old_NC=torch.full((2, 2), -1.0))
    batch = replace(batch, rollout_NC=torch.tensor([[-1.0, -1.0], [-0.2, -0.2]]))
    policy_NC = torch.full((2, 2), -1.0)
    losses = {}
    for name, more in {
        "plain": {},
        "rejection": {"rollout_rejection": "seq_mean_k1", "rollout_rejection_low": 0.9},
        "mask": {"off_policy_delta": 0.5},
    }.items():
        algorithm = build_algorithm(AlgorithmSection(advantage="dr_grpo", ref_kl_coef=0.1, **more), max_new_tokens=2)
        given = replace(batch, ref_NC=torch.full((2, 2), -2.0))
        advantage_NC = algorithm.advantage(torch.tensor([1.0, 0.0]), given)
        ones_NC, denom = torch.ones(2, 2), algorithm.denominator(given)
        losses[name], stats = algorithm.loss(policy_NC, given, advantage_NC, ones_NC, denom=denom)
        assert stats.get("policy/rejected", stats.get("policy/off_policy_masked", 0.5)) == 0.5
    kl = 0.1 * (math.exp(-1.0) + 1.0 - 1.0)
    assert losses["plain"].item() == pytest.approx(kl)  # -0.5 and 0.5 on two tokens each
    assert losses["rejection"].item() == losses["mask"].item() == pytest.approx(kl - 0.25)
