"""ExGRPO: what is kept, which questions are replayed, the shaped ratio, and state."""

import json
import math
from dataclasses import replace

import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import end_step, per_row, plugin, scored_batch

from mmrl.algorithms.advantages import dr_grpo
from mmrl.algorithms.losses import LossInput
from mmrl.config.schema import AlgorithmSection
from mmrl.plugins import resolve_module


def test_buckets_in_the_middle_are_drawn_most():
    weight = resolve_module("exgrpo", kind="algorithms")[0]._weight
    weights = [weight(k - 4) for k in range(1, 8)]
    shares = [round(w / sum(weights), 4) for w in weights]
    assert shares == [0.0044, 0.054, 0.242, 0.3991, 0.242, 0.054, 0.0044]


def losses(ratio, kind, **options):
    batch = make_batch([1], kind=(kind,))
    policy_NC = (batch.old_NC.double() + math.log(ratio)).requires_grad_()
    inputs = LossInput(policy_NC, batch.old_NC, torch.ones(1, 1), batch.mask_NC, batch, AlgorithmSection())
    loss_NC, _ = plugin("exgrpo", **options).hooks["policy_loss"](inputs)
    loss_NC.sum().backward()
    return round(loss_NC.item(), 4), round(policy_NC.grad.item(), 4)


@pytest.mark.parametrize(
    ("ratio", "value", "gradient"),
    [(0.01, 0.0909, 0.0826), (0.1, 0.5, 0.25), (1.0, 0.9091, 0.0826), (5.0, 0.9804, 0.0192)],
)
def test_the_ratio_of_replayed_rows_is_shaped_and_never_clipped(ratio, value, gradient):
    assert losses(ratio, "replay") == (-value, -gradient)


def test_fresh_rows_have_the_clipped_loss_or_the_plain_one():
    assert losses(2.0, "fresh") == (-1.28, 0.0)
    assert losses(2.0, "fresh", clip_fresh=False) == (-2.0, -2.0)


def with_kept(**options):
    """A plug-in that has a success of s0 (one of two) and has begun."""
    used = plugin("exgrpo", **options)
    end_step(used, scored_batch([1.0, 0.0], lengths=[3, 1]))
    return used


def test_a_success_takes_a_place_of_its_group():
    used = with_kept()
    batch = make_batch([1] * 16, gid=[0] * 8 + [1] * 8, rewards=[0.0] * 16)
    merged, rewards_N = used.hooks["replay"](batch, batch.rewards_NK[:, 0])
    assert len(merged) == 16 and merged.kind.count("replay") == 1
    assert merged.gid_N.tolist().count(0) == 8
    assert merged.ids_NC[-1].tolist() == [0, 1, 2]
    advantage_NC = dr_grpo(rewards_N, merged, AlgorithmSection())
    assert sorted(per_row(advantage_NC[merged.gid_N == 0])) == [-0.125] * 7 + [0.875]
    assert advantage_NC[merged.gid_N == 1].abs().max() == 0


def test_at_most_the_fraction_of_questions_is_replayed():
    used = plugin("exgrpo")
    end_step(used, scored_batch([1.0, 0.0] * 4, gid=[0, 0, 1, 1, 2, 2, 3, 3]))
    batch = make_batch([1] * 8, gid=[0, 0, 1, 1, 2, 2, 3, 3])
    merged, _ = used.hooks["replay"](batch, batch.rewards_NK[:, 0])
    assert merged.kind.count("replay") == 2
    again, _ = used.hooks["replay"](batch, batch.rewards_NK[:, 0])
    assert again.prompt_id == merged.prompt_id
    other = [used.hooks["replay"](replace(batch, step=step), batch.rewards_NK[:, 0])[0].prompt_id for step in range(9)]
    assert len(set(other)) > 1
    assert plugin("exgrpo", fraction=0.0).hooks["replay"](batch, batch.rewards_NK[:, 0])[0] is batch


def test_the_answer_of_the_highest_log_prob_is_taken():
    used = plugin("exgrpo")
    rollout_NC = torch.tensor([[-2.0, -2.0], [-0.5, -0.5], [-1.0, -1.0]])
    end_step(used, scored_batch([1.0, 1.0, 0.0], lengths=[2] * 3, rollout_NC=rollout_NC))
    batch = make_batch([1, 1, 1, 1], gid=[0, 0, 1, 1])
    merged, _ = used.hooks["replay"](batch, batch.rewards_NK[:, 0])
    assert merged.rollout_NC[-1].tolist() == [-0.5, -0.5]
    short = plugin("exgrpo", keep_per_prompt=1)
    end_step(short, scored_batch([1.0, 1.0, 0.0], lengths=[2] * 3, rollout_NC=rollout_NC))
    assert [len(items) for items in short.state_dict()["kept"].values()] == [1]


def test_it_begins_at_a_pass_rate_and_retires_what_is_always_solved():
    used = plugin("exgrpo")
    end_step(used, scored_batch([1.0, 0.0, 0.0, 0.0]))
    assert used.state_dict()["begun"] is False
    end_step(used, scored_batch([1.0] * 4))
    assert used.state_dict() == {"kept": {}, "bucket": {}, "begun": True}


def test_replayed_and_unscored_rows_are_not_counted():
    used = plugin("exgrpo")
    nan = float("nan")
    end_step(used, scored_batch([1.0, 0.0, nan, 1.0], kind=("fresh", "fresh", "fresh", "replay")))
    assert used.state_dict()["bucket"] == {"s0": 0.0}
    assert len(used.state_dict()["kept"]["s0"]) == 1


def test_state_survives_a_checkpoint():
    used, resumed = with_kept(), plugin("exgrpo")
    resumed.load_state_dict(json.loads(json.dumps(used.state_dict())))
    assert resumed.state_dict() == used.state_dict()
    batch = make_batch([1] * 4, gid=[0, 0, 1, 1])
    merged, _ = resumed.hooks["replay"](batch, batch.rewards_NK[:, 0])
    assert merged.rollout_NC[-1].tolist() == [-1.0] * 3
