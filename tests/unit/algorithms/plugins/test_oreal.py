"""OREAL: cloning of right answers, pushing of wrong ones, weights by token scores, pairs."""

import math

import torch
from makers.plugin_values import advantages, per_row, plugin, scored_batch, with_spans

from mmrl.algorithms.losses import LossInput
from mmrl.config.schema import AlgorithmSection


def losses(advantage, given, *, log_ratio=0.0, **options):
    """Token losses of a row given these token scores, whose policy log-probs are -1, and their gradient."""
    spans = [[(1, score) for score in given]]
    batch = with_spans(scored_batch([1.0], lengths=[len(given)]), "scores", spans)
    policy_NC = (batch.old_NC + log_ratio).requires_grad_()
    advantage_NC = torch.full(batch.mask_NC.shape, advantage)
    inputs = LossInput(policy_NC, batch.old_NC, advantage_NC, batch.mask_NC, batch, AlgorithmSection())
    loss_NC, _ = plugin("oreal", **options).hooks["policy_loss"](inputs)
    loss_NC.sum().backward()
    return [[round(v, 4) + 0.0 for v in grid[0].tolist()] for grid in (loss_NC, policy_NC.grad)]


def cumulative(*chances):
    """Scores whose running mean has these chances under the sigmoid."""
    means = [math.log(p / (1 - p)) for p in chances]
    return [means[0], *((n + 2) * means[n + 1] - (n + 1) * means[n] for n in range(len(means) - 1))]


def test_right_answers_are_cloned_where_tokens_are_praised():
    assert losses(1.0, cumulative(0.3, 0.6, 0.9)) == [[0.0, 0.2, 0.8], [0.0, -0.2, -0.8]]
    assert losses(0.5, cumulative(0.9), scaled=True, positive=2.0) == [[0.8], [-0.8]]


def test_wrong_answers_are_pushed_away_where_tokens_are_blamed():
    assert losses(-1.0, cumulative(0.3, 0.6, 0.9)) == [[0.2, 0.0, 0.0], [0.2, 0.0, 0.0]]
    assert losses(-1.0, cumulative(0.3), negative=1.0, log_ratio=math.log(2)) == [[0.8], [0.8]]


def test_the_running_mean():
    loss, _ = losses(1.0, [0.0, 2.0, 1.0])  # means 0, 1, 1: p = .5, .7311, .7311
    assert loss == [0.0, 0.4621, 0.4621]


def test_without_scores_every_token_has_weight_one():
    assert losses(1.0, [0.0], scores=None)[0] == [1.0]
    assert losses(1.0, [float("nan")])[0] == [1.0]
    assert losses(1.0, [float("nan"), 9.0])[0] == [0.0, 0.9998]


def test_one_right_and_one_wrong_answer_stay():
    batch = scored_batch([1.0, 1.0, 0.0, 0.0, 1.0, 1.0], gid=[0] * 4 + [1] * 2)
    keep_N = plugin("oreal").hooks["keep"](batch, batch.rewards_NK[:, 0])
    assert sorted(batch.rewards_NK[keep_N, 0].tolist()) == [0.0, 1.0]
    assert batch.gid_N[keep_N].tolist() == [0, 0]
    pair = batch.select(keep_N)
    assert sorted(per_row(advantages(plugin("oreal"), pair))) == [-1.0, 1.0]
    assert plugin("oreal", pairs=False).hooks["keep"](batch, batch.rewards_NK[:, 0]).all()
