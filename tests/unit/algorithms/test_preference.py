"""Losses of pairs: the worked numbers, and that a pair may be cut into two micro-batches."""

import math

import pytest
import torch

from mmrl.algorithms.preference import PAIR_LOSSES
from mmrl.config.stage_sections import DpoSection
from mmrl.training.dpo import Pairs


@pytest.mark.parametrize(
    ("loss", "margin", "beta", "expected"),
    [
        ("sigmoid", 0.0, 0.1, math.log(2)),
        ("sigmoid", 1.0, 0.1, 0.6444),
        ("sigmoid", -1.0, 0.1, 0.7444),
        ("sigmoid", -1e5, 1.0, 1e5),
        ("ipo", 0.0, 0.1, 25.0),
        ("ipo", 1.0, 0.1, 16.0),
        ("ipo", 5.0, 0.1, 0.0),
        ("hinge", 0.0, 0.1, 1.0),
        ("hinge", 1.0, 0.1, 0.9),
        ("hinge", 20.0, 0.1, 0.0),
    ],
)
def test_worked_numbers(loss, margin, beta, expected):
    assert PAIR_LOSSES[loss](torch.tensor([margin]), beta=beta).item() == pytest.approx(expected, abs=5e-5)


def pairs(dpo: DpoSection, policy_N: torch.Tensor) -> Pairs:
    length_N = torch.tensor([2.0, 1.0, 1.0, 2.0])
    ref_N = torch.tensor([-3.0, -1.0, -2.0, -2.5])
    return Pairs(dpo, policy_N, ref_N, length_N, num_pairs=2.0, chosen_tokens=3.0)


GRID = [[-1.0, -1.0], [-2.0, 0.0], [-1.5, 0.0], [-1.0, -0.5]]  # two pairs: chosen, rejected, chosen, rejected


def test_margin_accuracy_and_the_mixed_in_cross_entropy():
    grid_NC = torch.tensor(GRID)
    # ratios 1, -1, 0.5, 1: margins 2 and -0.5
    loss, stats = pairs(DpoSection.model_validate({"beta": 0.5, "sft_weight": 0.3}), grid_NC.sum(-1)).loss(
        grid_NC, torch.arange(4), {}
    )
    expected = (math.log(1 + math.exp(-1.0)) + math.log(1 + math.exp(0.25))) / 2
    assert stats == pytest.approx(
        {
            "dpo/margin": 0.75,
            "dpo/accuracy": 0.5,
            "dpo/chosen": 0.75,
            "dpo/rejected": 0.0,
            "loss/pairs": expected,
            "loss/sft": 3.5 / 3,
        }
    )
    assert loss.item() == pytest.approx(expected + 0.3 * 3.5 / 3)


def test_means_over_tokens_take_length_out():
    grid_NC = torch.tensor(GRID)
    _, stats = pairs(DpoSection.model_validate({"mean_logprobs": True}), grid_NC.sum(-1)).loss(
        grid_NC, torch.arange(4), {}
    )
    assert stats["dpo/chosen"] == pytest.approx((1.0 / 2 + 0.5 / 1) / 2)
    assert stats["dpo/rejected"] == pytest.approx((-1.0 / 1 + 1.0 / 2) / 2)


@pytest.mark.parametrize("loss", PAIR_LOSSES)
def test_pairs_cut_into_micro_batches_have_the_same_loss_and_gradient(loss):
    dpo = DpoSection.model_validate({"loss": loss, "beta": 0.3, "sft_weight": 0.5})
    whole_NC = torch.tensor(GRID, requires_grad=True)
    together = pairs(dpo, torch.zeros(4))
    value, stats = together.loss(whole_NC, torch.arange(4), {})
    value.backward()
    cut_NC = torch.tensor(GRID, requires_grad=True)
    apart = pairs(dpo, cut_NC.detach().sum(-1))
    parts = [apart.loss(cut_NC[rows], torch.tensor(rows), {}) for rows in ([0, 3], [2], [1])]
    total = sum(part for part, _ in parts)
    assert isinstance(total, torch.Tensor)
    total.backward()
    assert total.item() == pytest.approx(value.item())
    assert {key: sum(part[key] for _, part in parts) for key in stats} == pytest.approx(stats)
    assert whole_NC.grad is not None
    torch.testing.assert_close(cut_NC.grad, whole_NC.grad)
