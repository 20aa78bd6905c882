"""Properties that every registered advantage, policy loss and aggregation has, run over all their combinations."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from makers.batches import make_batch, widened

from mmrl.algorithms.aggregate import Mode
from mmrl.algorithms.algorithm import build_algorithm
from mmrl.algorithms.registry import ADVANTAGES, POLICY_LOSSES
from mmrl.config.schema import AlgorithmSection

MODES = get_args(Mode)
KINDS = [(advantage, loss) for advantage in ADVANTAGES for loss in POLICY_LOSSES]
everything = pytest.mark.parametrize(("advantage", "policy_loss"), KINDS)
every_mode = pytest.mark.parametrize("mode", MODES)

LENGTHS, GID = [2, 5, 0, 3, 1, 4], [0, 1, 0, 1, 0, 1]
REWARDS = [1.0, 0.2, 0.5, float("nan"), 0.0, 0.7]


def algorithm_of(advantage, policy_loss, mode="token-mean", **settings):
    section = AlgorithmSection(
        advantage=advantage,
        policy_loss=policy_loss,
        aggregation=mode,
        **({"ref_kl_coef": 0.1} | settings),
    )
    return build_algorithm(section, max_new_tokens=8)


def batch_of(rewards):
    return make_batch(LENGTHS, gid=GID, rewards=rewards)


def some_batch():
    batch = batch_of(REWARDS)
    generator = torch.Generator().manual_seed(0)
    return replace(batch, ref_NC=-torch.rand(batch.mask_NC.shape, generator=generator) * batch.mask_NC)


def some_policy(batch):
    generator = torch.Generator().manual_seed(1)
    return batch.rollout_NC + 0.6 * (torch.rand(6, 5, generator=generator) - 0.5) * batch.mask_NC


def step(algorithm, batch, policy_NC, *, slices=None):
    """Loss, gradient and statistics, as the trainer takes them: one denominator, any split into micro-batches."""
    policy_NC = policy_NC.clone().requires_grad_()
    rewards_N = algorithm.shape_rewards(batch).rewards_N
    advantage_NC = algorithm.advantage(rewards_N, batch)
    weight_NC, denom = algorithm.token_weight(advantage_NC, batch), algorithm.denominator(batch)
    total, sums = torch.zeros(()), {}
    for rows in slices or [torch.arange(len(batch))]:
        part = batch.select(rows)
        loss, stats = algorithm.loss(policy_NC[rows], part, advantage_NC[rows], weight_NC[rows], denom=denom)
        total = total + loss
        sums = {name: sums.get(name, 0.0) + value for name, value in stats.items()}
    total.backward()
    return total.detach(), policy_NC.grad, sums, advantage_NC


@everything
@every_mode
def test_padding_columns_and_masked_rows_change_nothing(advantage, policy_loss, mode):
    algorithm, batch = algorithm_of(advantage, policy_loss, mode), some_batch()
    loss, grad, stats, advantages = step(algorithm, batch, some_policy(batch))
    wide = widened(batch, 3)
    loss2, grad2, stats2, advantages2 = step(algorithm, wide, torch.nn.functional.pad(some_policy(batch), (0, 3)))
    torch.testing.assert_close(loss2, loss)
    torch.testing.assert_close(grad2[:, :5], grad)
    torch.testing.assert_close(advantages2[:, :5], advantages)
    assert (grad2[:, 5:] == 0).all()
    assert (advantages2[:, 5:] == 0).all()
    assert stats2 == pytest.approx(stats, abs=1e-6)


@everything
@every_mode
def test_a_row_order_does_not_matter(advantage, policy_loss, mode):
    algorithm, batch = algorithm_of(advantage, policy_loss, mode), some_batch()
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    loss, grad, _, advantages = step(algorithm, batch, some_policy(batch))
    loss2, grad2, _, advantages2 = step(algorithm, batch.select(order), some_policy(batch)[order])
    torch.testing.assert_close(loss2, loss)
    torch.testing.assert_close(grad2, grad[order])
    torch.testing.assert_close(advantages2, advantages[order])


@everything
@every_mode
@pytest.mark.parametrize("slices", [[[0], [1], [2], [3], [4], [5]], [[5, 0], [1, 2, 3, 4]]])
def test_any_split_into_micro_batches_gives_the_same_step(advantage, policy_loss, mode, slices):
    algorithm, batch = algorithm_of(advantage, policy_loss, mode), some_batch()
    loss, grad, stats, _ = step(algorithm, batch, some_policy(batch))
    loss2, grad2, stats2, _ = step(algorithm, batch, some_policy(batch), slices=[torch.tensor(s) for s in slices])
    torch.testing.assert_close(loss2, loss)
    torch.testing.assert_close(grad2, grad)
    assert stats2 == pytest.approx(stats, abs=1e-6)


@everything
def test_a_constant_group_has_no_gradient(advantage, policy_loss):
    algorithm = algorithm_of(advantage, policy_loss, ref_kl_coef=0.0)
    batch = batch_of([0.3] * 6)
    _, grad, _, advantages = step(algorithm, batch, some_policy(batch))
    assert (advantages == 0).all()
    assert (grad == 0).all()


@everything
def test_at_ratio_one_the_gradient_is_that_of_reinforce(advantage, policy_loss):
    algorithm = algorithm_of(advantage, policy_loss, "seq-mean-token-mean", ref_kl_coef=0.0)
    batch = some_batch()
    _, grad, _, advantages = step(algorithm, batch, batch.rollout_NC)
    length_N1 = batch.length_N.clamp(min=1)[:, None]
    torch.testing.assert_close(grad, -advantages / length_N1 / 5)  # five sequences with tokens


@everything
def test_only_the_policy_gets_a_gradient(advantage, policy_loss):
    algorithm, batch = algorithm_of(advantage, policy_loss), some_batch()
    frozen = {name: getattr(batch, name).clone().requires_grad_() for name in ("old_NC", "ref_NC", "rollout_NC")}
    batch = replace(batch, **frozen)
    advantage_NC = algorithm.advantage(algorithm.shape_rewards(batch).rewards_N, batch)
    weight_NC = torch.ones_like(advantage_NC, requires_grad=True)
    policy_NC = some_policy(some_batch()).requires_grad_()
    loss, _ = algorithm.loss(policy_NC, batch, advantage_NC, weight_NC, denom=algorithm.denominator(batch))
    loss.backward()
    assert policy_NC.grad is not None
    assert weight_NC.grad is None
    assert all(tensor.grad is None for tensor in frozen.values())
    assert not advantage_NC.requires_grad


@everything
@every_mode
@pytest.mark.parametrize("shift", [50.0, -50.0, 1e4])
def test_extreme_inputs_stay_finite(advantage, policy_loss, mode, shift):
    algorithm, batch = algorithm_of(advantage, policy_loss, mode), some_batch()
    loss, grad, stats, _ = step(algorithm, batch, batch.rollout_NC + shift)
    assert loss.isfinite()
    assert grad.isfinite().all()
    assert all(value == value and abs(value) < float("inf") for value in stats.values())


@everything
@every_mode
def test_a_batch_without_loss_tokens_is_zero(advantage, policy_loss, mode):
    algorithm = algorithm_of(advantage, policy_loss, mode, mask_truncated=True)
    batch = replace(some_batch(), truncated_N=torch.ones(6, dtype=torch.bool))
    loss, grad, _, _ = step(algorithm, batch, some_policy(batch))
    assert loss == 0
    assert (grad == 0).all()


@pytest.mark.parametrize(
    "neutral",
    [
        {"dual_clip": None},
        {"overlong_buffer": 4, "overlong_factor": 0.0},
        {"mask_truncated": True},
        {"dynamic_sampling": True},
        {"aggregation_length": 5},
        {"ref_kl_coef": 0.0, "ref_kl_estimator": "k1"},
    ],
)
def test_a_setting_at_its_neutral_value_is_the_base_path_bit_for_bit(neutral):
    batch = some_batch()
    base = step(algorithm_of("grpo", "ppo_clip", ref_kl_coef=0.0), batch, some_policy(batch))
    other = step(algorithm_of("grpo", "ppo_clip", **({"ref_kl_coef": 0.0} | neutral)), batch, some_policy(batch))
    assert torch.equal(base[0], other[0])
    assert torch.equal(base[1], other[1])
