"""The divergence in the reward and its steered coefficient; entropy; weights by task and dataset."""

import json
from dataclasses import replace

import pytest
import torch
from makers.batches import make_batch
from makers.method_steps import algorithm_of, batch_for, policy_for, run_step

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.config.schema import AlgorithmSection


def build(**settings):
    return build_algorithm(AlgorithmSection(**settings), max_new_tokens=8)


def kl_batch():
    """One completion of reward 1 whose tokens have k1 0.2 and 0.4."""
    return make_batch([2], rewards=[1.0], ref_NC=torch.tensor([[-1.2, -1.4]]))


def test_the_divergence_in_the_reward_is_of_tokens_where_the_advantage_reads_them():
    algorithm = build(advantage="reinforce_pp", ref_kl_coef=0.05, ref_kl_in="reward")
    assert algorithm.needs_early == {"old", "ref"}
    shaped = algorithm.shape_rewards(kl_batch())
    assert shaped.rewards_N.tolist() == [1.0]
    assert shaped.token_rewards_NC is not None
    tokens = shaped.token_rewards_NC + torch.tensor([[0.0, 1.0]])  # the score is on the last token
    assert tokens[0].tolist() == pytest.approx([-0.01, 0.98])
    assert shaped.changes["ref_kl"].tolist() == pytest.approx([-0.03])


def test_it_is_summed_where_the_advantage_has_one_reward_per_completion():
    shaped = build(advantage="grpo", ref_kl_coef=0.05, ref_kl_in="reward").shape_rewards(kl_batch())
    assert shaped.rewards_N.tolist() == pytest.approx([0.97])
    assert shaped.token_rewards_NC is None


def test_in_the_reward_it_is_not_in_the_loss():
    algorithm = build(ref_kl_coef=0.05, ref_kl_in="reward")
    batch = kl_batch()
    metrics = {}
    algorithm.shape_rewards(batch)
    _, stats = algorithm.loss(
        torch.full((1, 2), -1.0), batch, torch.zeros(1, 2), torch.ones(1, 2), denom=algorithm.denominator(batch)
    )
    assert "policy/ref_kl" not in stats
    algorithm.on_step_end(batch, torch.ones(1), metrics)
    assert metrics["reward/ref_kl"] == pytest.approx(0.3)


@pytest.mark.parametrize("place", ["loss", "reward"])
def test_the_coefficient_is_steered_by_what_was_measured_and_saved(place):
    settings = {"ref_kl_coef": 0.2, "ref_kl_in": place, "ref_kl_target": 0.2, "ref_kl_horizon": 100}
    algorithm, batch = build(**settings), kl_batch()
    metrics = {"policy/ref_kl": 0.3} if place == "loss" else {}
    algorithm.shape_rewards(batch)
    algorithm.on_step_end(batch, torch.ones(1), metrics)
    assert metrics["policy/ref_kl_coef"] == 0.2  # that of this step
    state = json.loads(json.dumps(algorithm.state_dict()))
    assert state == {"algorithm:ref_kl": {"coef": pytest.approx(0.2 * (1 + 0.2 / 100))}}
    resumed = build(**settings)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    build(ref_kl_coef=0.2).load_state_dict(state)  # the target may be dropped in between


def test_the_importance_of_the_divergence_is_the_ratio():
    batch = make_batch([1], ref_NC=torch.tensor([[-1.5]]), old_NC=torch.tensor([[-2.0]]))
    policy_NC = torch.tensor([[-1.0]])
    values = []
    for importance in (False, True):
        algorithm = build(ref_kl_coef=1.0, ref_kl_importance=importance)
        denom = algorithm.denominator(batch)
        loss, _ = algorithm.loss(policy_NC, batch, torch.zeros(1, 1), torch.ones(1, 1), denom=denom)
        values.append(loss.item())
    assert values[0] == pytest.approx(0.1065, abs=5e-5)
    assert values[1] == pytest.approx(values[0] * torch.e, rel=1e-5)


def test_the_entropy_bonus_lowers_the_loss_by_the_mean_entropy():
    algorithm, batch = build(entropy_coef=0.1), make_batch([1, 3])
    assert algorithm.extra == {"entropy"}
    entropy_NC = torch.tensor([[2.0, 0.0, 0.0], [1.0, 1.0, 4.0]], requires_grad=True)
    arguments = (torch.full((2, 3), -1.0), batch, torch.zeros(2, 3), torch.ones(2, 3))
    loss, stats = algorithm.loss(*arguments, denom=algorithm.denominator(batch), extra={"entropy": entropy_NC})
    assert (loss.item(), stats["policy/entropy"]) == pytest.approx((-0.2, 2.0))
    loss.backward()
    assert entropy_NC.grad is not None
    assert entropy_NC.grad.tolist() == [pytest.approx([-0.025, 0, 0]), pytest.approx([-0.025] * 3)]


def test_tasks_and_datasets_weigh_their_completions():
    batch = replace(batch_for(), task=("a", "b") * 4, dataset=("x",) * 4 + ("y",) * 4)
    plain = run_step(algorithm_of(ref_kl_coef=0.1, dual_clip=None), batch, policy_for(batch))
    settings = {
        "by_task": {"a": {"advantage_scale": 0.5}, "b": {"loss_weight": 3.0}},
        "by_dataset": {"y": {"advantage_scale": 4.0, "loss_weight": 2.0}},
    }
    step = run_step(algorithm_of(ref_kl_coef=0.1, dual_clip=None, **settings), batch, policy_for(batch))
    scale_N = torch.tensor([0.5, 1, 0.5, 1, 2, 4, 2, 4])
    torch.testing.assert_close(step.advantage_NC, plain.advantage_NC * scale_N[:, None])
    alone = run_step(algorithm_of(dual_clip=None), batch, policy_for(batch)).gradient_NC
    of_kl = plain.gradient_NC - alone
    weight_N = torch.tensor([1.0, 3, 1, 3, 2, 6, 2, 6])
    torch.testing.assert_close(step.gradient_NC, weight_N[:, None] * (scale_N[:, None] * alone + of_kl))


def test_old_of_the_sampler_is_needed_in_every_update():
    assert build(old_logprobs="sampler").needs == {"old"}
    assert build().needs == frozenset()
