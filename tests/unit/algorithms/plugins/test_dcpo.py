"""DCPO: the worked bounds, smoothed advantages and aggregation, and its state."""

import json

import pytest
import torch
from makers.plugin_values import advantages, end_step, per_row, plugin, scored_batch

from mmrl.algorithms.aggregate import count
from mmrl.algorithms.losses import LossInput
from mmrl.config.schema import AlgorithmSection


def loss_of(q, ratio, advantage, **settings):
    """The loss of one token and its gradient by the policy's log-prob."""
    section = AlgorithmSection(**{"clip_low": 0.16, "clip_high": 0.2, "dual_clip": None, **settings})
    old_NC = torch.tensor([[q]], dtype=torch.float64).log()
    policy_NC = (old_NC + torch.tensor(ratio, dtype=torch.float64).log()).requires_grad_()
    batch = scored_batch([1.0])
    inputs = LossInput(policy_NC, old_NC, torch.tensor([[advantage]]), batch.mask_NC, batch, section)
    loss_NC, stats = plugin("dcpo").hooks["policy_loss"](inputs)
    loss_NC.sum().backward()
    return round(loss_NC.item(), 4), round(policy_NC.grad.item(), 4), stats


@pytest.mark.parametrize(
    ("q", "low", "high"), [(0.9, 0.7687, 1.1872), (0.1, 0.5, 2.0), (0.001, 0.5, 10.0), (1.0, 0.8, 1.1708)]
)
def test_bounds_widen_as_the_token_gets_rarer(q, low, high):
    assert loss_of(q, 100.0, 1.0)[:2] == (-high, 0.0)
    assert loss_of(q, 0.01, -1.0)[:2] == (low, 0.0)
    assert loss_of(q, 1.0, 1.0)[:2] == (-1.0, -1.0)


def test_the_fixed_bound_would_clip_a_rare_token_that_dcpo_still_raises():
    loss, gradient, stats = loss_of(0.1, 1.5, 1.0)
    assert (loss, gradient) == (-1.5, -1.5)
    assert not stats["clipfrac_high"].any()


def test_the_dual_clip_bounds_the_loss_of_negative_advantages():
    assert loss_of(0.01, 9.0, -1.0, dual_clip=3.0)[:2] == (3.0, 0.0)
    assert loss_of(0.01, 9.0, -1.0)[:2] == (9.0, 9.0)


def test_the_first_visit_is_grpo_without_epsilon():
    assert per_row(advantages(plugin("dcpo"), scored_batch([1, 0, 0, 1]))) == [0.866, -0.866, -0.866, 0.866]


def test_a_constant_group_learns_from_its_history():
    used = plugin("dcpo")
    end_step(used, scored_batch([1, 0, 0, 1]))
    assert per_row(advantages(used, scored_batch([1, 1, 1, 1]))) == [0.2611] * 4


def test_the_second_visit_takes_the_smaller_of_two_mixtures():
    used = plugin("dcpo")
    end_step(used, scored_batch([1, 1, 0, 1]))  # mean 0.75, deviation 0.5
    assert per_row(advantages(used, scored_batch([1, 0, 0, 0]))) == [1.1972, -0.6972, -0.6972, -0.6972]


def test_history_is_kept_by_prompt_and_unscored_groups_are_no_visit():
    used = plugin("dcpo")
    nan = float("nan")
    end_step(used, scored_batch([1, 0, 0, 1, nan, nan], gid=[0, 0, 0, 0, 1, 1]))
    state = used.state_dict()["history"]
    assert list(state) == ["s0"]
    assert state["s0"] == [1, 0.5, pytest.approx(1 / 3)]
    other = scored_batch([1, 1], gid=[7, 7])
    assert per_row(advantages(used, other)) == [0.0, 0.0]


def test_history_survives_a_checkpoint():
    used, resumed = plugin("dcpo"), plugin("dcpo")
    end_step(used, scored_batch([1, 0, 0, 1]))
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert per_row(advantages(resumed, scored_batch([1, 1, 1, 1]))) == [0.2611] * 4


def test_otm_sums_the_token_means_of_completions_whatever_the_micro_batches():
    mask_NC = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]).bool()
    loss_NC = torch.tensor([[1.0, 1, 9, 9], [2, 2, 2, 2]])
    aggregate, denom = plugin("dcpo").hooks["aggregate"], count(mask_NC, length=4)
    assert aggregate(loss_NC, mask_NC, denom).item() == 3.0
    assert sum(aggregate(loss_NC[[n]], mask_NC[[n]], denom).item() for n in range(2)) == 3.0
    assert plugin("dcpo", aggregation="token-mean").hooks["aggregate"](loss_NC, mask_NC, denom).item() == (
        pytest.approx(10 / 6)
    )
