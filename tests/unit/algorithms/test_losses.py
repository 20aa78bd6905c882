import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from makers.batches import make_batch

from mmrl.algorithms.losses import LossInput, cispo, gpg, ppo_clip, sapo
from mmrl.algorithms.regularisers import KL_ESTIMATORS, KlController, ref_kl
from mmrl.algorithms.sequence_losses import gmpo, gspo, vespo
from mmrl.algorithms.shaping import overlong_penalty, weighted_sum
from mmrl.algorithms.value import value_loss
from mmrl.config.schema import AlgorithmSection


def one_token(ratio: float, advantage: float, delta: float | None = None, **settings):
    """Loss, gradient of the loss by the log-prob, and statistics of a single token."""
    batch = make_batch([1])
    policy = torch.tensor([[-1.0 + math.log(ratio)]], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[-1.0]], dtype=torch.float64)
    section = AlgorithmSection(**settings)
    inputs = LossInput(policy, old, torch.tensor([[advantage]]), batch.mask_NC, batch, section)
    loss, stats = ppo_clip(inputs, delta=delta)
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
    assert {name: means[name] for name in ("k1", "k2", "k3")} == pytest.approx(
        {"k1": 0.0823, "k2": 0.0788, "k3": 0.0823}, abs=5e-5
    )


def test_k3_keeps_its_digits_near_zero():
    d = torch.tensor(1e-3)
    assert ref_kl(d, torch.tensor(0.0), estimator="k3").item() == pytest.approx(4.998e-7, rel=2e-3)


@given(d=st.floats(-1e4, 1e4), name=st.sampled_from(sorted(KL_ESTIMATORS)))
def test_kl_is_bounded_and_k2_k3_are_not_negative(d, name):
    value = ref_kl(torch.tensor(d), torch.tensor(0.0), estimator=name).item()
    assert -10 <= value <= 10
    assert name in ("k1", "k1+") or value >= -1e-7  # rounding of float32


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


def test_two_sided_delta_bounds_the_ratio_of_a_negative_advantage():
    assert one_token(6.0, -1.0, dual_clip=None, delta=4.0)[:2] == pytest.approx((4.0, 0.0))
    assert one_token(1.0, 1.0, dual_clip=None, delta=4.0)[:2] == pytest.approx((-1.0, -1.0))
    assert one_token(6.0, -1.0, dual_clip=None, delta=None)[:2] == pytest.approx((6.0, 6.0))


def token_losses(function, log_ratios, advantage, *, policy=None, options=None, **settings):
    """Loss of each token of one completion, and the gradient of their mean by each log-prob."""
    d_NC = torch.tensor([log_ratios], dtype=torch.float64)
    policy_NC = torch.tensor([policy] if policy else torch.full_like(d_NC, -1.0).tolist(), dtype=torch.float64)
    policy_NC.requires_grad_()
    batch = make_batch([len(log_ratios)])
    advantage_NC = torch.full_like(d_NC, advantage)
    inputs = LossInput(
        policy_NC, policy_NC.detach() - d_NC, advantage_NC, batch.mask_NC, batch, AlgorithmSection(**settings)
    )
    loss_NC, _ = function(inputs, **(options or {}))
    loss_NC.mean().backward()
    return loss_NC.tolist()[0], policy_NC.grad.tolist()[0]


@pytest.mark.parametrize("token", [False, True])
def test_gspo_clips_a_sequence_as_a_whole(token):
    tiny = {"clip_low": 3e-4, "clip_high": 4e-4, "options": {"token": token}}
    loss, gradient = token_losses(gspo, [0.1, -0.1, 0.3, 0.1], 1.0, **tiny)
    assert loss == pytest.approx([-1.0004] * 4)
    assert gradient == [0.0] * 4
    loss, gradient = token_losses(gspo, [0.0001, 0.0003], 1.0, **tiny)
    assert loss == pytest.approx([-1.0002] * 2, abs=1e-7)
    assert gradient == pytest.approx([-1.0002 / 2] * 2, abs=1e-7)


def test_gspo_of_one_token_is_ppo_without_dual_clip():
    for ratio, advantage in ((1.1, 1.0), (1.5, 1.0), (0.5, -1.0), (0.9, 2.0)):
        loss, gradient = token_losses(gspo, [math.log(ratio)], advantage)
        assert (loss[0], gradient[0]) == pytest.approx(one_token(ratio, advantage, dual_clip=None)[:2])


@pytest.mark.parametrize(
    ("ratio", "advantage", "policy", "options", "loss", "gradient"),
    [
        (1.5, 1.0, -1.0, {}, 1.2, -1.2),
        (0.5, -1.0, -0.7, {}, -0.56, 0.8),
        (7.0, 1.0, -2.0, {"cap": 5.0}, 10.0, -5.0),
        (0.5, 1.0, -2.0, {"cap": 5.0}, 1.0, -0.5),
    ],
)
def test_cispo_weighs_every_token(ratio, advantage, policy, options, loss, gradient):
    settings = {"clip_low": 0.2, "clip_high": 0.2, "options": options, "policy": [policy]}
    found = token_losses(cispo, [math.log(ratio)], advantage, **settings)
    assert (found[0][0], found[1][0]) == pytest.approx((loss, gradient))


def test_gmpo_clips_in_log_space_against_the_advantage():
    for advantage, loss in ((1.0, -0.9355), (-1.0, 1.2214)):
        assert token_losses(gmpo, [0.1, 0.9, -0.7], advantage)[0] == pytest.approx([loss] * 3, abs=5e-5)
    wide = token_losses(gmpo, [0.1, 0.9, -0.7], 1.0, options={"clip": 100.0})[0]
    assert wide == pytest.approx([-1.1052] * 3, abs=5e-5)  # the geometric mean; the arithmetic one is 1.3538


def test_sapo_is_a_soft_gate_with_slope_one():
    for ratio, advantage, gate, slope in (
        (1.0, 1.0, 2.0, 1.0),
        (1.0, -1.0, 1.9048, 1.0),
        (1.5, 1.0, 2.4898, 0.94),
        (1.5, -1.0, None, 0.9341),
    ):
        loss, gradient = token_losses(sapo, [math.log(ratio)], advantage)
        assert gate is None or -loss[0] / advantage == pytest.approx(gate, abs=5e-5)
        assert -gradient[0] / advantage / ratio == pytest.approx(slope, abs=5e-5)  # d ratio / d log p is the ratio


def test_vespo_weighs_a_sequence_by_phi_of_its_ratio():
    for ratio, advantage, phi in ((1.0, 1.0, 1.0), (0.5, 1.0, 1.1204), (2.0, 1.0, 0.1991), (2.0, -1.0, 1.0827)):
        halves = [math.log(ratio) / 2] * 2  # the product over both tokens is the ratio
        loss, gradient = token_losses(vespo, halves, advantage)
        assert loss == pytest.approx([phi * advantage] * 2, abs=5e-5)  # log p is -1
        assert gradient == pytest.approx([-phi * advantage / 2] * 2, abs=5e-5)


def test_gpg_is_the_plain_policy_gradient():
    assert token_losses(gpg, [0.7], 1.5, policy=[-2.0]) == ([3.0], [-1.5])


def test_a_plus_gives_an_estimator_the_gradient_of_k2():
    for name, value in (("k1+", 0.5), ("k3+", 0.1065)):
        policy = torch.tensor(0.5, requires_grad=True)
        kl = ref_kl(policy, torch.tensor(0.0), estimator=name)
        kl.backward()
        assert (kl.item(), policy.grad.item()) == pytest.approx((value, 0.5), abs=5e-5)
    assert ref_kl(torch.tensor(-0.5), torch.tensor(0.0), estimator="abs").item() == 0.5


def test_the_controller_follows_the_measured_divergence():
    controller = KlController(0.2, target=0.1, horizon=10000)
    controller.update(0.15, completions=256)
    assert controller.coef == pytest.approx(0.201024)
    controller.update(0.0, completions=10000)
    assert controller.coef == pytest.approx(0.201024 * 0.8)  # at most a fifth


def test_the_loss_of_values_is_clipped_like_ppo():
    batch = make_batch([1], value_NC=torch.zeros(1, 1), meta={"returns_NC": torch.tensor([[2.0]])})
    for clip, loss in ((0.2, 1.62), (None, 0.5)):
        section = AlgorithmSection(value={"clip": clip})
        inputs = LossInput(*([torch.zeros(1, 1)] * 3), batch.mask_NC, batch, section, {"value": torch.ones(1, 1)})
        assert value_loss(inputs)[0].item() == pytest.approx(loss)
