"""AERO: rescue, pruning, and the constant advantage."""

from dataclasses import replace

import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import advantages, per_row, plugin, scored_batch


def trained(rewards, **options):
    """Rewards that are kept, and their advantages."""
    batch = scored_batch(rewards)
    used = plugin("aero", **options)
    rewards_N = torch.tensor(rewards, dtype=torch.float64)
    keep_N = used.hooks["keep"](batch, rewards_N)
    left = batch.select(keep_N)
    return left.rewards_NK[:, 0].tolist(), per_row(advantages(used, left))


def test_groups_without_spread_keep_four_with_a_constant_advantage():
    assert trained([0.0] * 16) == ([0.0] * 4, [-0.8889] * 4)
    assert trained([1.0] * 8) == ([1.0] * 4, [0.8] * 4)
    assert trained([0.0] * 8, coef=0.5) == ([0.0] * 4, [-0.4] * 4)


def test_few_right_ones_keep_as_many_wrong_ones():
    kept, found = trained([1.0, 1.0] + [0.0] * 6)
    assert (kept, found) == ([1.0, 1.0, 0.0, 0.0], [0.866, 0.866, -0.866, -0.866])
    assert trained([1.0] * 6 + [0.0] * 2)[0] == [1.0] * 6 + [0.0] * 2
    assert trained([1.0] + [0.0] * 7, wrong_per_right=3)[0] == [1.0, 0.0, 0.0, 0.0]


def test_unscored_answers_count_in_neither():
    kept, found = trained([1.0, 1.0, float("nan")])
    assert kept == [1.0, 1.0] and found == [0.5, 0.5]  # p = 3 / 4


def rescued(succeeds_at, **options):
    """The sizes of two groups after rescue; the first has a right answer, the other gets one as number succeeds_at."""
    batch = make_batch([1] * 16, gid=[0] * 8 + [1] * 8, rewards=[1.0] + [0.0] * 15)
    calls = []

    def generate(gids, *, n):
        calls.append((tuple(gids), n))
        made = 8 + sum(number for _, number in calls[:-1])
        rewards = [float(made + i + 1 == succeeds_at) for _ in gids for i in range(n)]
        more = make_batch([2] * len(rewards), gid=[g for g in gids for _ in range(n)], rewards=rewards)
        return more

    found = plugin("aero", **options).hooks["second_round"](batch, generate)
    return found.gid_N.unique(return_counts=True)[1].tolist(), calls


@pytest.mark.parametrize(("succeeds_at", "size"), [(9, 10), (12, 12), (99, 16)])
def test_a_prompt_without_success_gets_two_more_until_the_first(succeeds_at, size):
    sizes, calls = rescued(succeeds_at)
    assert sizes == [8, size]
    assert calls == [((1,), 2)] * ((size - 8) // 2)


def test_the_last_round_does_not_pass_the_limit():
    assert rescued(99, more=3)[0] == [8, 16]
    assert rescued(99, most=0)[1] == []


def test_a_rescued_group_is_mixed():
    batch = scored_batch([0.0] * 9 + [1.0])
    used = plugin("aero")
    keep_N = used.hooks["keep"](batch, batch.rewards_NK[:, 0])
    assert int(keep_N.sum()) == 2 and bool(keep_N[9])
    assert per_row(advantages(used, batch.select(keep_N))) == [-0.7071, 0.7071]


def test_kept_rows_are_chosen_by_chance_not_by_place():
    batch = scored_batch([0.0] * 8)
    order = torch.tensor([5, 2, 7, 0, 1, 3, 6, 4])
    used = plugin("aero")
    first = used.hooks["keep"](batch, batch.rewards_NK[:, 0])
    turned = replace(batch.select(order), meta={})
    assert used.hooks["keep"](turned, turned.rewards_NK[:, 0]).tolist() == first[order].tolist()
