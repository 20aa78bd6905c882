"""Advantages of tokens and over the whole step: worked numbers of methods/rl.md, and what the value head learns."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from makers.batches import make_batch

from mmrl.algorithms.advantages import gpg, grpo, pass_at_k
from mmrl.algorithms.token_advantages import (
    gae,
    gae_unscaled,
    reinforce_pp,
    reinforce_pp_baseline,
    returns,
    returns_to_go,
)
from mmrl.config.schema import AlgorithmSection
from mmrl.scoring.combine import PartRule, TaskRule, rewards_of_group

SETTINGS = AlgorithmSection()
NAN = math.nan


def rows(grid_NC, batch):
    """The values of each row's tokens; cells after them must be 0."""
    assert (grid_NC[~batch.mask_NC] == 0).all()
    return [row[:length] for row, length in zip(grid_NC.tolist(), batch.length_N.tolist(), strict=True)]


def near(found, expected):
    return [value for row in found for value in row] == pytest.approx([v for row in expected for v in row], abs=5e-5)


def test_reinforce_pp_whitens_over_tokens():
    batch = make_batch([2, 4])
    assert near(rows(reinforce_pp(torch.tensor([1.0, 0.0]), batch, SETTINGS), batch), [[1.291] * 2, [-0.6455] * 4])


def test_reinforce_pp_baseline_centres_groups_first():
    batch = make_batch([2, 1, 2, 2], gid=[0, 0, 1, 1])
    found = reinforce_pp_baseline(torch.tensor([1.0, 0.0, 1.0, 1.0]), batch, SETTINGS)
    assert near(rows(found, batch), [[1.2421] * 2, [-1.6562], [-0.2070] * 2, [-0.2070] * 2])


@pytest.mark.parametrize("estimator", [reinforce_pp, reinforce_pp_baseline])
def test_whitened_advantages_have_mean_0_and_variance_1_and_leave_unscored_rows_out(estimator):
    batch = make_batch([3, 1, 2, 5], gid=[0, 0, 1, 1])
    grid_NC = estimator(torch.tensor([1.0, 0.2, NAN, 0.4]), batch, SETTINGS)
    cells = grid_NC[torch.tensor([0, 1, 3])][batch.mask_NC[torch.tensor([0, 1, 3])]].double()
    if estimator is reinforce_pp:
        assert (cells.mean().item(), cells.var().item()) == pytest.approx((0.0, 1.0), abs=1e-5)
    assert (grid_NC[2] == 0).all()
    assert (estimator(torch.tensor([NAN] * 4), batch, SETTINGS) == 0).all()


def test_returns_are_discounted_to_the_last_token():
    batch = make_batch([3])
    found = returns_to_go(torch.tensor([1.0]), batch, gamma=0.9)
    assert found[0].tolist() == pytest.approx([0.81, 0.9, 1.0])
    grid = replace(batch, token_rewards_NC=torch.tensor([[0.1, 0.2, 0.3]]))
    assert returns_to_go(torch.tensor([1.0]), grid)[0].tolist() == pytest.approx([1.6, 1.5, 1.3])


@pytest.mark.parametrize(("lam", "expected"), [(0.5, [0.4, 0.4, 0.4]), (1.0, [0.8, 0.6, 0.4]), (0.0, [0.2, 0.2, 0.4])])
def test_gae_worked_numbers_and_the_targets_of_the_value_head(lam, expected):
    value = torch.tensor([[0.2, 0.4, 0.6, 0.0], [0.5, 0.0, 0.0, 0.0]])
    batch = replace(make_batch([3, 1]), value_NC=torch.nn.functional.pad(value[:, :3], (0, 0)))
    found = gae_unscaled(torch.tensor([1.0, NAN]), batch, lam=lam)
    assert found[0].tolist() == pytest.approx(expected)
    targets = returns(torch.tensor([1.0, NAN]), batch, lam=lam)
    assert targets[0].tolist() == pytest.approx([a + v for a, v in zip(expected, [0.2, 0.4, 0.6], strict=True)])
    assert targets[1, 0].item() == 0.5  # unscored: it stays where it is
    assert gae(torch.tensor([1.0, NAN]), batch, SETTINGS, lam=lam)[1].tolist() == [0.0] * 3


def test_gae_with_perfect_values_is_zero_before_whitening():
    batch = replace(make_batch([4]), value_NC=torch.full((1, 4), 0.7))
    assert gae_unscaled(torch.tensor([0.7]), batch, lam=0.9)[0].tolist() == pytest.approx([0.0] * 4)


def test_the_scale_of_grpo_may_be_that_of_the_batch():
    rewards, batch = torch.tensor([1.0, 0, 0, 1, 1, 1, 1, 0]), make_batch([1] * 8, gid=[0] * 4 + [1] * 4)
    found = grpo(rewards, batch, AlgorithmSection(std_eps=1e-4), scale="batch")[:, 0].tolist()
    assert found == pytest.approx([0.9659, -0.9659, -0.9659, 0.9659, 0.4830, 0.4830, 0.4830, -1.4489], abs=5e-5)
    none = grpo(rewards, batch, SETTINGS, scale="none")[:, 0].tolist()
    assert none == pytest.approx([0.5, -0.5, -0.5, 0.5, 0.25, 0.25, 0.25, -0.75])


def test_gdpo_is_the_normalised_sum_divided_by_the_std_of_the_batch():
    rule = TaskRule((PartRule(0), PartRule(1)), combine="normalised_sum")
    values = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    rewards = torch.from_numpy(rewards_of_group(values, rule))
    batch = make_batch([1] * 4)
    found = grpo(rewards, batch, AlgorithmSection(std_eps=1e-4), scale="batch")[:, 0].tolist()
    assert found == pytest.approx([1.4856, -0.3981, -0.6894, -0.3981], abs=2e-4)
    constant = torch.from_numpy(rewards_of_group(np.stack([values[:, 0], np.ones(4)], 1), rule))
    alone = grpo(constant, batch, AlgorithmSection(std_eps=1e-4), scale="batch")[:, 0].tolist()
    assert alone == pytest.approx(
        [0.8659, -0.8659, 0.8659, -0.8659], abs=2e-4
    )  # a part that is always 1 changes nothing


@pytest.mark.parametrize(
    ("rewards", "scale", "expected"),
    [
        ([1.0, 0.4, 0.2, 0.0], True, [1.3887, 0, 0, 0]),
        ([1.0, 0.4, 0.2, 0.0], False, [0.6, 0, 0, 0]),
        ([1.0, 1.0, 0.0, 0.0], True, [0, 0, 0, 0]),
        ([NAN, 0.4, 0.5, NAN], False, [0, 0, 0.1, 0]),
    ],
)
def test_pass_at_k_gives_the_best_its_lead(rewards, scale, expected):
    found = pass_at_k(torch.tensor(rewards), make_batch([1] * 4), SETTINGS, scale=scale)[:, 0].tolist()
    assert found == pytest.approx(expected, abs=5e-5)


def test_gpg_scales_by_the_share_of_completions_with_a_reward():
    rewards = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    found = gpg(rewards, make_batch([1] * 8, gid=[0, 0, 1, 1, 2, 2, 3, 3]), SETTINGS)[:, 0].tolist()
    assert found == pytest.approx([1.3333, -1.3333] * 3 + [0.0, 0.0], abs=5e-5)
