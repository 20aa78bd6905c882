"""Properties that every registered advantage, policy loss and aggregation has, run over their combinations."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from makers.batches import widened
from makers.method_steps import LENGTHS, algorithm_of, batch_for, policy_for, run_step

from mmrl.algorithms.aggregate import Mode
from mmrl.algorithms.registry import ADVANTAGES, POLICY_LOSSES, SEQUENCE_MODES

KINDS = [
    *((name, "ppo_clip") for name in ADVANTAGES),
    *(("grpo", name) for name in POLICY_LOSSES if name != "ppo_clip"),
]
IN_MODES = [
    (advantage, loss, mode)
    for advantage, loss in KINDS
    for mode in (SEQUENCE_MODES if POLICY_LOSSES[loss].sequence_level else get_args(Mode))
]
everything = pytest.mark.parametrize(("advantage", "policy_loss"), KINDS)
every_mode = pytest.mark.parametrize(("advantage", "policy_loss", "mode"), IN_MODES)
LEFT = torch.tensor([n for n in LENGTHS if n])  # sequences with tokens


def algorithm(advantage, policy_loss, mode="seq-mean-token-mean", **settings):
    chosen = {"advantage": advantage, "policy_loss": policy_loss, "aggregation": mode, "ref_kl_coef": 0.1}
    return algorithm_of(**(chosen | settings))


def assert_same(step, other, *, order=None):
    rows = torch.arange(len(LENGTHS)) if order is None else order
    torch.testing.assert_close(other.loss, step.loss)
    torch.testing.assert_close(other.gradient_NC, step.gradient_NC[rows])
    torch.testing.assert_close(other.advantage_NC, step.advantage_NC[rows])
    assert other.stats == pytest.approx(step.stats, abs=1e-6)


@every_mode
def test_padding_columns_change_nothing(advantage, policy_loss, mode):
    batch = batch_for()
    step = run_step(algorithm(advantage, policy_loss, mode), batch, policy_for(batch))
    wide = widened(batch, 3)
    other = run_step(algorithm(advantage, policy_loss, mode), wide, torch.nn.functional.pad(policy_for(batch), (0, 3)))
    assert (other.gradient_NC[:, 5:] == 0).all()
    assert (other.advantage_NC[:, 5:] == 0).all()
    cut = {grid: getattr(other, grid)[:, :5] for grid in ("gradient_NC", "advantage_NC")}
    assert_same(step, replace(other, **cut))


@every_mode
def test_a_row_order_does_not_matter(advantage, policy_loss, mode):
    batch, order = batch_for(), torch.tensor([4, 2, 0, 7, 5, 1, 6, 3])
    step = run_step(algorithm(advantage, policy_loss, mode), batch, policy_for(batch))
    other = run_step(algorithm(advantage, policy_loss, mode), batch.select(order), policy_for(batch)[order])
    assert_same(step, other, order=order)


@every_mode
@pytest.mark.parametrize("slices", [[[n] for n in range(8)], [[5, 0], [1, 2, 3, 4, 6, 7]]])
def test_any_split_into_micro_batches_gives_the_same_step(advantage, policy_loss, mode, slices):
    batch = batch_for()
    step = run_step(algorithm(advantage, policy_loss, mode), batch, policy_for(batch))
    assert_same(step, run_step(algorithm(advantage, policy_loss, mode), batch, policy_for(batch), slices=slices))


@everything
def test_a_constant_group_has_no_gradient_but_where_the_registry_says_so(advantage, policy_loss):
    batch = batch_for(rewards=(1.0, 0.5, 0.0, 0.5, 0.0, 0.5, 0.3, 0.5))  # the first group is mixed, the second is not
    step = run_step(algorithm(advantage, policy_loss, ref_kl_coef=0.0, value={"coef": 0.0}), batch, policy_for(batch))
    for grid_NC in (step.advantage_NC, step.gradient_NC):
        assert (grid_NC[batch.gid_N == 0] != 0).any()
        assert bool((grid_NC[batch.gid_N == 1] != 0).any()) == bool(ADVANTAGES[advantage].constant_group)


@everything
def test_at_ratio_one_the_gradient_is_that_of_reinforce(advantage, policy_loss):
    batch = batch_for()
    assert batch.old_NC is not None
    step = run_step(algorithm(advantage, policy_loss, ref_kl_coef=0.0), batch, batch.old_NC)
    length_N1 = batch.length_N.clamp(min=1)[:, None]
    mean_NC = step.advantage_NC
    if POLICY_LOSSES[policy_loss].sequence_level:
        mean_NC = (step.advantage_NC.sum(1, keepdim=True) / length_N1) * batch.mask_NC
    torch.testing.assert_close(step.gradient_NC, -mean_NC / length_N1 / len(LEFT))


@everything
def test_only_the_policy_gets_a_gradient(advantage, policy_loss):
    batch = batch_for()
    grids = ("old_NC", "ref_NC", "rollout_NC", "value_NC")
    frozen = {name: getattr(batch, name).clone().requires_grad_() for name in grids}
    step = run_step(algorithm(advantage, policy_loss), replace(batch, **frozen), policy_for(batch))
    assert (step.gradient_NC != 0).any()
    assert all(tensor.grad is None for tensor in frozen.values())
    assert not step.advantage_NC.requires_grad


@every_mode
@pytest.mark.parametrize("shift", [50.0, -50.0, 1e4])
def test_extreme_inputs_stay_finite(advantage, policy_loss, mode, shift):
    batch = batch_for()
    step = run_step(algorithm(advantage, policy_loss, mode), batch, batch.rollout_NC + shift)
    assert step.loss.isfinite()
    assert step.gradient_NC.isfinite().all()
    assert all(value == value and abs(value) < float("inf") for value in step.stats.values())


@every_mode
def test_a_batch_without_loss_tokens_is_zero(advantage, policy_loss, mode):
    batch = replace(batch_for(), truncated_N=torch.ones(len(LENGTHS), dtype=torch.bool))
    step = run_step(algorithm(advantage, policy_loss, mode, mask_truncated=True), batch, policy_for(batch))
    assert step.loss == 0
    assert (step.gradient_NC == 0).all()


@pytest.mark.parametrize(
    "neutral",
    [
        {"dual_clip": None},
        {"dual_clip": None, "policy_loss_options": {"delta": 1e9}},
        {"overlong_buffer": 4, "overlong_factor": 0.0},
        {"dynamic_sampling": True},
        {"aggregation_length": 5},
        {"advantage_options": {"scale": "group"}},
        {"ref_kl_coef": 0.0, "ref_kl_estimator": "k1", "ref_kl_importance": True},
        {"off_policy_delta": 1e9},
        {"rollout_rejection": "seq_sum_k1", "rollout_rejection_high": float("inf")},
        {"rollout_correction": "mask", "rollout_correction_level": "geometric", "rollout_correction_cap": 1e9},
        {"by_task": {"t": {"loss_weight": 1.0, "advantage_scale": 1.0}}},
        {"aggregation": "rank-token-mean"},
        {"entropy_coef": 0.0},
    ],
)
def test_a_setting_at_its_neutral_value_is_the_base_path_bit_for_bit(neutral):
    batch = batch_for()
    if "rollout_correction" in neutral:
        batch = replace(batch, rollout_NC=batch.old_NC)  # equal engines: every weight is 1
    base = run_step(algorithm_of(), batch, policy_for(batch))
    other = run_step(algorithm_of(**neutral), batch, policy_for(batch))
    assert torch.equal(base.loss, other.loss)
    assert torch.equal(base.gradient_NC, other.gradient_NC)


def test_masked_truncation_is_neutral_where_nothing_is_truncated():
    batch = replace(batch_for(), truncated_N=torch.zeros(len(LENGTHS), dtype=torch.bool))
    base = run_step(algorithm_of(), batch, policy_for(batch))
    other = run_step(algorithm_of(mask_truncated=True), batch, policy_for(batch))
    assert torch.equal(base.gradient_NC, other.gradient_NC)
