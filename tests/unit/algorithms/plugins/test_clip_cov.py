"""Clip-Cov and KL-Cov: the worked products, and which tokens are chosen."""

import pytest
import torch
from makers.plugin_values import SETTINGS, plugin, scored_batch

from mmrl.algorithms.covariance import centred_products
from mmrl.algorithms.losses import LossInput

A_NC = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]])
LOGP_NC = torch.tensor([[-0.1], [-2.0], [-0.3], [-3.0]])


def batch_at(step=0):
    return scored_batch([0.0] * 4, old_NC=LOGP_NC, step=step)


def test_worked_products():
    assert centred_products(A_NC, batch_at())[:, 0].tolist() == pytest.approx([1.25, -0.65, -1.05, 1.65])


def test_clip_cov_draws_among_the_tokens_within_the_bounds():
    weights = [plugin("clip_cov").hooks["token_weight"](A_NC, batch_at(step))[:, 0].tolist() for step in range(20)]
    assert {tuple(row) for row in weights} == {(0.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 0.0)}
    both = plugin("clip_cov", ratio=0.5).hooks["token_weight"](A_NC, batch_at())
    assert both[:, 0].tolist() == [0.0, 1.0, 1.0, 0.0]
    none = plugin("clip_cov", ratio=0.5, low=2.0).hooks["token_weight"](A_NC, batch_at())
    assert none[:, 0].tolist() == [1.0] * 4


def test_kl_cov_holds_the_token_of_the_largest_product():
    used, batch = plugin("kl_cov", coef=0.5), batch_at()
    [(name, held_NC)] = used.hooks["columns"](torch.zeros(4), A_NC, batch).items()
    assert held_NC[:, 0].tolist() == [False, False, False, True]
    policy_NC = (LOGP_NC + 0.4).requires_grad_()
    held = scored_batch([0.0] * 4, old_NC=LOGP_NC, meta={name: held_NC})
    loss_NC, _ = used.hooks["regulariser"](LossInput(policy_NC, LOGP_NC, A_NC, held.mask_NC, held, SETTINGS))
    assert loss_NC[:, 0].tolist() == pytest.approx([0.0, 0.0, 0.0, 0.2])
    loss_NC.sum().backward()
    assert policy_NC.grad[:, 0].tolist() == pytest.approx([0.0, 0.0, 0.0, 0.5])
