import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from makers.batches import make_batch

from mmrl.algorithms.losses import LossInput, ppo_clip
from mmrl.algorithms.regularisers import KL_ESTIMATORS, ref_kl
from mmrl.algorithms.shaping import overlong_penalty, weighted_sum
from mmrl.config.schema import AlgorithmSection


def one_token(ratio: float, advantage: float, **settings):
    """Loss, gradient of the loss by the log-prob, and statistics of a single token."""
    batch = make_batch([1])
    policy = torch.tensor([[-1.0 + math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[-1.0]], dtype=torch.float64)
    section = AlgorithmSection(**settings)
    inputs = LossInput(policy, old, torch.tensor([[advantage]]), batch.mask_NC, batch, section)
    loss, stats = ppo_clip(inputs)
    loss.sum().backward()
    assert policy.grad is not None
    return loss.item(), policy.grad.item(), {name: grid.item() for name, grid in stats.items()}


@pytest.mark.parametrize(
    ("ratio", "advantage", "settings", "loss", "gradient"),
    [
        (1.5, 1.0, {"clip_high": 0.2}, -1.2, 0.0),
        (1.5, 1.0, {"clip_high": 0.28}, -1.28, 0.0),  # clip-higher
        (0.5, 1.0, {}, -0.5, -0.5),  # never clipped on this side
        (0.5, -1.0, {}, 0.8, 0.0),
        (2.0, -1.0, {}, 2.0, 2.0),
        (5.0, -1.0, {"dual_clip": None}, 5.0, 5.0),
        (5.0, -1.0, {"dual_clip": 3.0}, 3.0, 0.0),
        (6.0, -1.0, {"dual_clip": 4.0}, 4.0, 0.0),
        (1.0, 2.0, {}, -2.0, -2.0),
        (1.0, -2.0, {}, 2.0, 2.0),
    ],
)
def test_ppo_clip_worked_numbers(ratio, advantage, settings, loss, gradient):
    found = one_token(ratio, advantage, **settings)
    assert found[:2] == pytest.approx((loss, gradient))


@pytest.mark.parametrize(
    ("ratio", "advantage", "clipped"),
    [(1.5, 1.0, "clipfrac_high"), (0.5, -1.0, "clipfrac_low"), (5.0, -1.0, "clipfrac_dual"), (1.1, 1.0, None)],
)
def test_clip_statistics_say_which_bound_held(ratio, advantage, clipped):
    stats = one_token(ratio, advantage)[2]
    assert stats == {name: name == clipped for name in ("clipfrac_low", "clipfrac_high", "clipfrac_dual")}


@pytest.mark.parametrize(
    ("d", "k1", "k2", "k3"),
    [(0.5, 0.5, 0.125, 0.1065), (-0.5, -0.5, 0.125, 0.1487), (2.0, 2.0, 2.0, 1.1353), (0, 0, 0, 0)],
)
def test_kl_worked_numbers(d, k1, k2, k3):
    found = [ref_kl(torch.tensor(float(d)), torch.tensor(0.0), estimator=name).item() for name in ("k1", "k2", "k3")]
    assert found == pytest.approx([k1, k2, k3], abs=5e-5)


def test_kl_estimators_in_expectation():
    p, q = torch.tensor([0.7, 0.3]), torch.tensor([0.5, 0.5])
    means = {name: (p * ref_kl(p.log(), q.log(), estimator=name)).sum().item() for name in KL_ESTIMATORS}
    assert means == pytest.approx({"k1": 0.0823, "k2": 0.0788, "k3": 0.0823}, abs=5e-5)


def test_k3_keeps_its_digits_near_zero():
    d = torch.tensor(1e-3)
    assert ref_kl(d, torch.tensor(0.0), estimator="k3").item() == pytest.approx(4.998e-7, rel=2e-3)


@given(d=st.floats(-1e4, 1e4), name=st.sampled_from(sorted(KL_ESTIMATORS)))
def test_kl_is_bounded_and_k2_k3_are_not_negative(d, name):
    value = ref_kl(torch.tensor(d), torch.tensor(0.0), estimator=name).item()
    assert -10 <= value <= 10
    assert name == "k1" or value >= -1e-7  # rounding of float32


def test_reference_gets_no_gradient():
    ref = torch.zeros(1, 1, requires_grad=True)
    ref_kl(torch.ones(1, 1, requires_grad=True), ref, estimator="k3").sum().backward()
    assert ref.grad is None


@pytest.mark.parametrize(
    ("length", "limits", "penalty"),
    [
        (1000, (20480, 4096, 1.0), 0.0),
        (16384, (20480, 4096, 1.0), 0.0),
        (18432, (20480, 4096, 1.0), -0.5),
        (20480, (20480, 4096, 1.0), -1.0),
        (448, (512, 128, 0.5), -0.25),
        (512, (512, 128, 0.5), -0.5),
    ],
)
def test_overlong_penalty_worked_numbers(length, limits, penalty):
    limit, buffer, factor = limits
    found = overlong_penalty(torch.tensor([length]), max_length=limit, buffer=buffer, factor=factor)
    assert found.item() == penalty


def test_weighted_sum_leaves_out_parts_without_weight_and_keeps_unscored():
    rewards = torch.tensor([[1.0, 0.5, math.nan], [1.0, math.nan, 0.0]])
    weights = torch.tensor([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0]])
    assert weighted_sum(rewards, weights)[0].item() == 2.0
    assert weighted_sum(rewards, weights)[1].isnan()
    assert weighted_sum(rewards[:1, :2], torch.tensor([0.1, 0.2])).item() == pytest.approx(0.2)
