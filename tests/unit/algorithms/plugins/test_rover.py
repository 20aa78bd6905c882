"""ROVER: the worked target, loss and first gradient."""

import pytest
import torch
from makers.plugin_values import SETTINGS, per_row, plugin, scored_batch

from mmrl.algorithms.losses import LossInput


def test_the_advantage_is_centred():
    batch = scored_batch([1.0, 0.0, 0.0, 0.0])
    found = plugin("rover").hooks["advantage"](batch.rewards_NK[:, 0], batch, SETTINGS)
    assert per_row(found) == [0.75, -0.25, -0.25, -0.25]


def loss_of(q, now, before, advantage):
    """Losses and gradients of a completion of two tokens; the means are of both states."""
    policy_NC = torch.tensor([q], dtype=torch.float64, requires_grad=True)
    batch = scored_batch([0.0], lengths=[2], meta={"mean_logprob": torch.tensor([before], dtype=torch.float64)})
    advantage_NC = torch.tensor([[advantage] * 2], dtype=torch.float64)
    extra = {"mean_logprob": torch.tensor([now], dtype=torch.float64)}
    inputs = LossInput(policy_NC, torch.zeros(1, 2).double(), advantage_NC, batch.mask_NC, batch, SETTINGS, extra)
    loss_NC, _ = plugin("rover").hooks["policy_loss"](inputs)
    loss_NC.sum().backward()
    return loss_NC[0].tolist(), policy_NC.grad[0].tolist()


def test_the_next_state_moves_the_target_and_the_last_token_has_none():
    loss, gradient = loss_of([0.2, 0.2], now=[-5.0, -10.0], before=[-5.0, -10.1], advantage=0.75)
    assert loss == pytest.approx([0.4225, (0.2 - 0.75) ** 2])
    assert gradient == pytest.approx([2 * (0.2 - 0.85), 2 * (0.2 - 0.75)])


def test_the_first_update_is_a_reinforce_step():
    losses = []
    for advantage in (0.75, -0.25, -0.25, -0.25):
        loss, gradient = loss_of([0.0, 0.0], now=[-7.0, -8.0], before=[-7.0, -8.0], advantage=advantage)
        assert gradient == pytest.approx([-2 * advantage] * 2)
        losses += loss
    assert sum(losses) / len(losses) == pytest.approx(0.1875)
