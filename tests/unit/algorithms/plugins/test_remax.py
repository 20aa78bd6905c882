"""ReMax: the greedy completion's reward is the baseline of its prompt."""

from dataclasses import replace

import pytest
import torch
from makers.plugin_values import SETTINGS, plugin, scored_batch

NAN = float("nan")


def with_greedy(batch, rewards, gids):
    """The batch after a second round whose greedy completions have these rewards."""
    asked = []

    def generate(wanted, *, greedy):
        asked.append((list(wanted), greedy))
        return replace(scored_batch(rewards), gid_N=torch.tensor(gids))

    done = plugin("remax").hooks["second_round"](batch, generate)
    assert asked == [([0, 1], True)]
    return done


@pytest.mark.parametrize(("sampled", "greedy", "expected"), [(1.0, 0.0, 1.0), (0.0, 1.0, -1.0), (0.6, 0.8, -0.2)])
def test_worked_numbers(sampled, greedy, expected):
    batch = with_greedy(scored_batch([sampled, 1.0], gid=[0, 1]), [NAN, greedy], [1, 0])
    advantage_NC = plugin("remax").hooks["advantage"](batch.rewards_NK[:, 0], batch, SETTINGS)
    assert advantage_NC[0, 0].item() == pytest.approx(expected)
    assert advantage_NC[1, 0].item() == 0.0  # its greedy completion is unscored


def test_rewards_of_tokens_are_summed_to_the_end():
    batch = scored_batch([0.0, NAN], gid=[0, 1], lengths=[3, 2])
    batch = with_greedy(batch, [0.25, 0.25], [0, 1])
    batch = replace(batch, token_rewards_NC=torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]))
    advantage_NC = plugin("remax").hooks["advantage"](batch.rewards_NK[:, 0], batch, SETTINGS)
    assert advantage_NC.tolist() == [[0.75, 0.75, 0.75], [0.0, 0.0, 0.0]]


def test_a_shift_of_the_greedy_reward_shifts_the_advantage():
    batch = scored_batch([1.0, 0.5], gid=[0, 1], lengths=[2, 1])
    low, high = (with_greedy(batch, [r, r], [0, 1]) for r in (0.0, 0.3))
    hook = plugin("remax").hooks["advantage"]
    moved = hook(batch.rewards_NK[:, 0], high, SETTINGS) - hook(batch.rewards_NK[:, 0], low, SETTINGS)
    torch.testing.assert_close(moved, -0.3 * batch.mask_NC)
