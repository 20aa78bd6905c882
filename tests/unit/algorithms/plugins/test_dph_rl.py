"""DPH-RL: divergences, what is recorded, and how it comes back."""

import json
import math

import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import end_step, plugin, scored_batch

from mmrl.algorithms.losses import LossInput
from mmrl.config.schema import AlgorithmSection


def divergence(u, kind):
    batch = make_batch([1], kind=("replay",))
    policy_NC = (batch.rollout_NC + math.log(u)).double()
    inputs = LossInput(policy_NC, policy_NC, torch.zeros(1, 1), batch.mask_NC, batch, AlgorithmSection())
    loss_NC, _ = plugin("dph_rl", divergence=kind, coef=1.0).hooks["regulariser"](inputs)
    return round(loss_NC.item(), 4) + 0.0


@pytest.mark.parametrize(
    ("u", "wanted"), [(1.0, (0.0, 0.0, 0.0)), (0.5, (0.1931, 0.0849, 0.1603)), (2.0, (0.3069, 0.1699, 0.3681))]
)
def test_divergences(u, wanted):
    assert tuple(divergence(u, kind) for kind in ("forward", "js", "alpha")) == wanted


def test_forward_is_the_kl_of_the_recorded_policy_in_the_mean():
    p0, theta = (0.7, 0.3), (0.5, 0.5)
    mean = sum(p * divergence(q / p, "forward") for p, q in zip(p0, theta, strict=True))
    assert round(mean, 3) == 0.082
    assert round(sum(p * math.log(p / q) for p, q in zip(p0, theta, strict=True)), 4) == 0.0823


def solved():
    """A plug-in that met s0, all right, and s1, mixed."""
    used = plugin("dph_rl")
    end_step(used, scored_batch([1.0, 1.0, 1.0, 0.0], gid=[0, 0, 1, 1], lengths=[3, 2, 1, 1]))
    return used


def test_prompts_that_were_all_right_are_answered_once_and_replayed():
    used = solved()
    assert used.hooks["budget"](["s0", "s1", "new"], 4).tolist() == [1, 4, 4]
    batch = make_batch([1, 4, 1], gid=[0, 1, 1], rewards=[0.0, 1.0, 0.0])
    merged, rewards_N = used.hooks["replay"](batch, batch.rewards_NK[:, 0])
    assert merged.kind == ("fresh", "fresh", "replay", "replay")
    assert merged.gid_N.tolist() == [1, 1, 0, 0]
    assert merged.prompt_id == ("s1", "s1", "s0", "s0")
    assert rewards_N.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert merged.length_N.tolist() == [4, 1, 3, 2]
    assert merged.ids_NC[2].tolist() == [0, 1, 2, 0]
    assert merged.rollout_NC[3].tolist() == [-1.0, -1.0, 0.0, 0.0]
    assert merged.old_NC is None  # computed anew for the rows there are
    weight_NC = used.hooks["token_weight"](torch.ones(merged.mask_NC.shape), merged)
    assert weight_NC[:, 0].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_the_divergence_touches_replayed_rows_alone():
    batch = make_batch([1, 1], kind=("fresh", "replay"))
    policy_NC = torch.full((2, 1), -1.0) + math.log(2.0)
    inputs = LossInput(policy_NC, policy_NC, torch.zeros(2, 1), batch.mask_NC, batch, AlgorithmSection())
    loss_NC, _ = plugin("dph_rl", coef=0.5).hooks["regulariser"](inputs)
    assert [round(v, 4) for v in loss_NC[:, 0].tolist()] == [0.0, 0.1534]


def test_only_the_first_visit_is_judged():
    used = solved()
    end_step(used, scored_batch([1.0, 1.0], gid=[1, 1]))
    assert list(used.state_dict()["solved"]) == ["s0"]
    end_step(used, scored_batch([float("nan"), 1.0], gid=[2, 2]))
    assert list(used.state_dict()["solved"]) == ["s0"]


def test_nothing_is_learned_while_it_records():
    used = plugin("dph_rl", frozen_steps=2)
    weights = [used.hooks["token_weight"](torch.ones(1, 1), make_batch([1], step=step)).item() for step in (0, 1, 2)]
    assert weights == [0.0, 0.0, 1.0]


def test_state_survives_a_checkpoint():
    used, resumed = solved(), plugin("dph_rl")
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert resumed.state_dict() == used.state_dict()
    batch = make_batch([1], rewards=[0.0])
    merged, _ = resumed.hooks["replay"](batch, batch.rewards_NK[:, 0])
    assert torch.equal(merged.rollout_NC, used.hooks["replay"](batch, batch.rewards_NK[:, 0])[0].rollout_NC)
