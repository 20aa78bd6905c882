"""Advantage-weighted cloning: the worked weights, and a loss that only imitates."""

import pytest
import torch
from makers.plugin_values import SETTINGS, per_row, plugin, scored_batch

from mmrl.algorithms.losses import LossInput


@pytest.mark.parametrize(
    ("gains", "weights"),
    [
        ([-0.2, 0.0, 0.1, 0.2, 0.4], [0.125, 0.375, 0.5, 0.625, 0.875]),
        ([0.0] * 9 + [10.0], [0.4167] * 9 + [1.0]),
        ([0.3, 0.3], [0.5, 0.5]),
        ([0.0, float("nan"), 1.0], [0.25, 0.0, 0.75]),
    ],
)
def test_worked_weights(gains, weights):
    batch = scored_batch(gains)
    found = plugin("weighted_cloning").hooks["advantage"](batch.rewards_NK[:, 0], batch, SETTINGS)
    assert per_row(found) == pytest.approx(weights, abs=6e-5)


def test_the_loss_is_the_weighted_log_prob():
    batch = scored_batch([0.0])
    policy_NC = torch.tensor([[-2.0]], requires_grad=True)
    inputs = LossInput(policy_NC, torch.tensor([[-9.0]]), torch.tensor([[0.25]]), batch.mask_NC, batch, SETTINGS)
    loss_NC, _ = plugin("weighted_cloning").hooks["policy_loss"](inputs)
    loss_NC.sum().backward()
    assert (loss_NC.item(), policy_NC.grad.item()) == (0.5, -0.25)
