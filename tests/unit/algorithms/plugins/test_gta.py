"""GTA: the guess is supervised, the rest reinforced."""

import torch
from makers.plugin_values import plugin, scored_batch, with_spans

from mmrl.algorithms.losses import LossInput
from mmrl.config.schema import AlgorithmSection


def parts(value, logprobs, **options):
    """Weights of the policy term, and the supervised loss with its gradient, of a guess of one token and one more."""
    batch = with_spans(scored_batch([1.0], lengths=[2]), "guess", [[(1, value)]])
    policy_NC = torch.tensor([logprobs], requires_grad=True)
    inputs = LossInput(policy_NC, policy_NC.detach(), torch.ones(1, 2), batch.mask_NC, batch, AlgorithmSection())
    used = plugin("gta", **options)
    loss_NC, _ = used.hooks["regulariser"](inputs)
    weight_NC = used.hooks["token_weight"](torch.ones(1, 2), batch)
    loss_NC.sum().backward()
    return weight_NC.tolist()[0], loss_NC.tolist()[0], policy_NC.grad.tolist()[0]


def test_a_right_guess_is_imitated_and_takes_no_part_in_the_policy_loss():
    assert parts(1.0, [-2.0, -1.0]) == ([0.0, 1.0], [2.0, 0.0], [-1.0, 0.0])
    assert parts(1.0, [-0.5, -1.0], coef=0.5) == ([0.0, 1.0], [0.25, 0.0], [-0.5, 0.0])


def test_a_wrong_guess_is_not():
    assert parts(0.0, [-2.0, -1.0]) == ([0.0, 1.0], [0.0, 0.0], [0.0, 0.0])


def test_without_a_coefficient_the_guess_is_like_any_other_token():
    batch = with_spans(scored_batch([1.0], lengths=[2]), "guess", [[(1, 1.0)]])
    assert plugin("gta", coef=None).hooks["token_weight"](torch.ones(1, 2), batch).tolist() == [[1.0, 1.0]]
