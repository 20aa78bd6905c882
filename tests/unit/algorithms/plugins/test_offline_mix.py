"""Offline-online mixing: the loss of recorded rows under each correction, and the advantage of a mixed group."""

import math

import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import end_step, per_row, plugin, scored_batch

from mmrl.algorithms.advantages import dr_grpo
from mmrl.algorithms.losses import LossInput
from mmrl.algorithms.plugins.offline_mix import OFFLINE
from mmrl.config.schema import AlgorithmSection


def losses(probability, *, offline=1.0, recorded=0.0, advantage=1.0, **options):
    """Loss and gradient of one token of this probability now, as the policy term and what is added to it."""
    batch = make_batch([1], meta={OFFLINE: torch.tensor([offline])})
    old_NC = torch.full((1, 1), recorded)
    policy_NC = torch.full((1, 1), math.log(probability)).double().requires_grad_()
    inputs = LossInput(policy_NC, old_NC, torch.full((1, 1), advantage), batch.mask_NC, batch, AlgorithmSection())
    hooks = plugin("offline_mix", **options).hooks
    policy_term_NC = hooks["token_weight"](inputs.advantage_NC, batch) * hooks["policy_loss"](inputs)[0]
    loss = (policy_term_NC + hooks["regulariser"](inputs)[0]).sum()
    loss.backward()
    return round(loss.item(), 4), round(policy_NC.grad.item(), 4)


@pytest.mark.parametrize(
    ("probability", "value", "gradient"), [(0.01, 0.0909, 0.0826), (0.1, 0.5, 0.25), (1.0, 0.9091, 0.0826)]
)
def test_without_recorded_log_probs_the_shaped_ratio_is_of_the_policy_itself(probability, value, gradient):
    assert losses(probability) == (-value, -gradient)


def test_recorded_log_probs_make_the_ratio():
    assert losses(0.4, recorded=math.log(0.2), correction="importance") == (-2.0, -2.0)
    assert losses(0.4, recorded=math.log(0.2)) == (-0.9524, -0.0454)  # f(2) = 2 / 2.1, .1 * 2 / 2.1^2


def test_none_is_clipped_and_sft_has_no_policy_term():
    assert losses(0.4, recorded=math.log(0.2), correction="none") == (-1.28, 0.0)
    assert losses(0.5, correction="sft", coef=0.5, advantage=-3.0) == (0.3466, -0.5)


@pytest.mark.parametrize("correction", ["none", "importance", "shaped", "sft"])
def test_fresh_rows_have_the_clipped_loss(correction):
    assert losses(0.4, recorded=math.log(0.2), offline=0.0, correction=correction) == (-1.28, 0.0)
    assert losses(0.4, recorded=math.log(0.2), offline=math.nan, correction=correction) == (-1.28, 0.0)


def test_one_recorded_success_among_seven_failures():
    batch = make_batch([1] * 8, gid=[0] * 8, rewards=[1.0] + [0.0] * 7)
    assert per_row(dr_grpo(batch.rewards_NK[:, 0], batch, AlgorithmSection())) == [0.875] + [-0.125] * 7


def test_metrics_are_per_source():
    meta = {OFFLINE: torch.tensor([0.0, 0.0, 1.0])}
    used = plugin("offline_mix")
    metrics = end_step(used, scored_batch([0.0, 0.5, 1.0], lengths=[2, 4, 7], meta=meta))
    assert metrics == {
        "offline_mix/fresh/rows": 2.0,
        "offline_mix/fresh/reward": 0.25,
        "offline_mix/fresh/length": 3.0,
        "offline_mix/offline/rows": 1.0,
        "offline_mix/offline/reward": 1.0,
        "offline_mix/offline/length": 7.0,
        "offline_mix/overlong": 0.0,
        "offline_mix/unfinished": 0.0,
    }
