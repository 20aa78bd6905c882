"""VeriFree: the answer is replaced by the reference, whose likelihood is the reward and the weight of learning it."""

import math
from dataclasses import replace

import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import per_row, plugin, shaped

from mmrl.algorithms.advantages import rloo
from mmrl.algorithms.losses import LossInput
from mmrl.config.schema import AlgorithmSection
from mmrl.data.sample import Sample


class Round:
    """Thoughts by row, None without a mark; words are encoded as their letters' numbers, the end token as 0."""

    most_tokens = 6

    def __init__(self, thoughts):
        self.thoughts, self.calls = thoughts, []

    def until(self, batch, row, mark):
        assert mark == "<answer>"
        return self.thoughts[row]

    def encode(self, text, *, ends=False):
        return [ord(letter) for letter in text] + [0] * ends

    def sample(self, gid):
        return Sample(f"s{gid}", "t", "text", (), answer="ab"[gid], dataset="d")

    def __call__(self, gids, *, n, prefix_ids):
        self.calls.append((gids, n, prefix_ids))
        lengths = [len(ids) for [ids] in prefix_ids]
        batch = make_batch([*lengths, max(lengths)], gid=[*gids, 0], rewards=[9.0] * (len(gids) + 1))
        batch = batch.select(torch.arange(len(gids)))
        return replace(batch, rollout_NC=torch.where(batch.mask_NC, -0.5, 0.0))


def test_the_answer_is_replaced_by_the_reference_which_pays_its_likelihood():
    batch = make_batch([3, 3, 3, 3], gid=[0, 1, 1, 0], rewards=[1.0, 0.5, 0.0, 1.0])
    given, used = Round([[5, 6], None, [7], [1, 2, 3, 4, 5]]), plugin("verifree", close=")")
    merged = used.hooks["second_round"](batch, given)
    # The last thought leaves no room for three tokens more; the second row has no mark.
    assert given.calls == [([0, 1], 1, [((5, 6, 97, 41, 0),), ((7, 98, 41, 0),)])]
    assert merged.gid_N.tolist() == [1, 0, 0, 1]
    assert shaped(used, merged) == [
        0.0,
        0.0,
        pytest.approx(math.exp(-1.5), abs=1e-4),
        pytest.approx(math.exp(-1.5), abs=1e-4),
    ]
    weight_NC = used.hooks["token_weight"](torch.ones(merged.mask_NC.shape), merged)
    assert weight_NC.tolist() == [[1.0] * 5, [1.0] * 5, [1.0, 1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0]]


def with_reference(logprobs, reference):
    batch = make_batch([len(logprobs)])
    column = torch.tensor([reference])
    return replace(batch, rollout_NC=torch.tensor([logprobs]), meta={"verifree_reference": column})


@pytest.mark.parametrize(
    ("logprobs", "reference", "coef", "loss"),
    [
        ([-9.0, -0.5, -0.5], [0.0, 1.0, 1.0], 1.0, [0.0, 0.1839, 0.1839]),
        ([-9.0, -0.5, -0.5], [0.0, 1.0, 1.0], 0.5, [0.0, 0.092, 0.092]),
        ([-9.0, -0.5, -2.0], [0.0, 0.0, 1.0], 1.0, [0.0, 0.0, 0.2707]),
    ],
)
def test_the_reference_is_learnt_by_its_likelihood(logprobs, reference, coef, loss):
    batch = with_reference(logprobs, reference)
    policy_NC = torch.tensor([logprobs], requires_grad=True)
    inputs = LossInput(policy_NC, policy_NC.detach(), torch.ones(1, 3), batch.mask_NC, batch, AlgorithmSection())
    loss_NC, _ = plugin("verifree", coef=coef).hooks["regulariser"](inputs)
    assert [round(value, 4) for value in loss_NC[0].tolist()] == loss
    loss_NC.sum().backward()
    p = math.exp(sum(value for value, of in zip(logprobs, reference, strict=True) if of))
    assert policy_NC.grad is not None
    assert policy_NC.grad[0].tolist() == pytest.approx([-coef * p * of for of in reference])


def test_its_rewards_under_rloo():
    batch = make_batch([1, 1, 1])
    assert per_row(rloo(torch.tensor([0.8, 0.4, 0.0]), batch, AlgorithmSection())) == [0.6, 0.0, -0.6]


def test_without_a_coefficient_rewards_stay():
    batch = make_batch([1, 1], rewards=[1.0, 0.0])
    assert shaped(plugin("verifree", coef=None), batch) == [1.0, 0.0]
