"""Lp-Reg: which tokens are kept near the cut policy, and the worked numbers of its loss."""

import math

import pytest
import torch
from makers.plugin_values import SETTINGS, plugin, scored_batch

from mmrl.algorithms.losses import LossInput, ppo_clip

P = [0.6, 0.25, 0.1, 0.04, 0.01]


def column(used, advantage_NC, old_NC):
    batch = scored_batch([0.0] * len(old_NC), old_NC=old_NC)
    return used.hooks["columns"](torch.zeros(len(old_NC)), advantage_NC, batch)["lp_reg_NC"]


def loss_of(p, proxy, *, low=True, advantage=-1.0, ratio=1.0):
    """Loss and gradient of one token of probability p."""
    policy_NC = torch.tensor([[math.log(p)]], dtype=torch.float64, requires_grad=True)
    batch = scored_batch([0.0], meta={"lp_reg_NC": torch.tensor([[low]])})
    old_NC = policy_NC.detach() - math.log(ratio)
    advantage_NC = torch.tensor([[advantage]], dtype=torch.float64)
    extra = {"min_p:0.02": torch.tensor([[math.log(proxy) if proxy else -math.inf]], dtype=torch.float64)}
    inputs = LossInput(policy_NC, old_NC, advantage_NC, batch.mask_NC, batch, SETTINGS, extra)
    loss_NC, _ = plugin("lp_reg").hooks["policy_loss"](inputs)
    loss_NC.sum().backward()
    return loss_NC.item(), policy_NC.grad.item(), ppo_clip(inputs)[0].item()


def test_a_chosen_token_gets_k3_to_the_proxy():
    loss, _, plain = loss_of(0.04, 0.04 / 0.99)
    assert loss - plain == pytest.approx(0.000051, abs=5e-7)
    assert loss_of(0.01, 0.0)[0] == loss_of(0.01, 0.0)[2]  # cut: plain
    assert loss_of(0.04, 0.04 / 0.99, low=False)[0] == plain
    assert loss_of(0.04, 0.04)[0] == plain  # kappa 0: the proxy is the policy


def test_a_chosen_token_is_not_clipped():
    loss, gradient, plain = loss_of(0.04, 0.04 / 0.99, ratio=0.5)
    assert plain == pytest.approx(0.8)
    assert (loss, gradient) == pytest.approx((0.5, 0.5), abs=0.02)


def test_the_lowest_of_negative_advantage_are_taken_and_fewer_than_two_are_none():
    old_NC = -torch.arange(1, 201, dtype=torch.float64)[:, None] / 100
    advantage_NC = torch.full((200, 1), -1.0)
    chosen_NC = column(plugin("lp_reg"), advantage_NC, old_NC)
    assert chosen_NC.nonzero()[:, 0].tolist() == [198, 199]
    advantage_NC[150:] = 1.0
    assert not column(plugin("lp_reg"), advantage_NC, old_NC).any()  # 150 at 1% are one token
    assert not column(plugin("lp_reg", share=0.0), torch.full((200, 1), -1.0), old_NC).any()
