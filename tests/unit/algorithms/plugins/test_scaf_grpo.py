"""Scaf-GRPO: which groups get hints, which hint, and what becomes of the group."""

from dataclasses import replace

import pytest
import torch
from makers.batches import make_batch
from makers.plugin_values import SETTINGS, end_step, per_row, plugin

from mmrl.algorithms.advantages import grpo
from mmrl.data.sample import Message, Sample, TextPart
from mmrl.errors import DataError


class Round:
    """Stands in for the trainer: prompt g is solved from its hint number helps[g] on."""

    def __init__(self, helps, hints):
        self.helps, self.hints, self.asked = helps, hints, []

    def sample(self, gid):
        messages = (Message("user", (TextPart("2 + 2?"),)),)
        return Sample(f"s{gid}", "math", "image", messages, columns={"hints": self.hints[gid]})

    def changed(self, gid, name, *, text):
        return None if text.endswith("too long") else (gid, name, text)

    def others(self, gids, prompts, *, n):
        self.asked.append([prompt[1:] for prompt in prompts])
        rewards = [float(int(name[4:]) >= self.helps[gid]) for gid, name, _ in prompts for _ in range(n)]
        batch = make_batch([2] * len(rewards), gid=[g for g in gids for _ in range(n)], rewards=rewards)
        names = tuple(f"s{gid}~{name}" for gid, name, _ in prompts for _ in range(n))
        return replace(batch, prompt_id=names, step=7)


def hinted(rewards, helps, hints, *, step=2, **options):
    batch = make_batch([1] * len(rewards), gid=[n // 4 for n in range(len(rewards))], rewards=rewards)
    given, used = Round(helps, hints), plugin("scaf_grpo", **options)
    found = used.hooks["second_round"](replace(batch, step=step, total_steps=10), given)
    return found, given.asked, used


HINTS = ["think", "plan", "solve"]


def test_the_smallest_hint_that_helps_gives_one_answer_in_place_of_a_failure():
    found, asked, used = hinted([0.0] * 8, {0: 2, 1: 3}, {0: HINTS, 1: HINTS})
    assert asked == [
        [("hint1", "\n\nHint: think")] * 2,
        [("hint2", "\n\nHint: plan")] * 2,
        [("hint3", "\n\nHint: solve")],
    ]
    assert found.gid_N.tolist().count(0) == 4 == found.gid_N.tolist().count(1)
    right = (found.rewards_NK[:, 0] == 1).nonzero().flatten().tolist()
    assert [found.prompt_id[row] for row in right] == ["s0~hint2", "s1~hint3"]
    assert end_step(used, found) == {"scaf_grpo/helped": 2.0, "scaf_grpo/level": 2.5}


def test_a_group_with_a_success_is_left_alone_and_so_is_the_start():
    found, asked, used = hinted([0.0, 0.0, 1.0, 0.0], {0: 1}, {0: HINTS})
    assert asked == [] and found.prompt_id == ("s0",) * 4
    assert end_step(used, found) == {"scaf_grpo/helped": 0.0}
    assert hinted([0.0] * 4, {0: 1}, {0: HINTS}, step=1)[1] == []
    assert len(hinted([0.0] * 4, {0: 1}, {0: HINTS}, step=1, start=0.1)[1]) == 1


def test_without_a_hint_that_helps_or_fits_the_group_stays():
    found, asked, _ = hinted([0.0] * 8, {0: 9, 1: 1}, {0: ["a"], 1: ["is too long"]}, tries=2)
    assert asked == [[("hint1", "\n\nHint: a")]] and found.rewards_NK.sum() == 0 and len(found) == 8
    assert hinted([0.0] * 4, {0: 1}, {0: None})[1] == []


def test_the_advantage_of_one_success_of_eight():
    batch = make_batch([1] * 8, rewards=[1.0] + [0.0] * 7)
    assert per_row(grpo(batch.rewards_NK[:, 0], batch, SETTINGS)) == [2.4749] + [-0.3536] * 7


def test_hints_that_are_no_list_are_an_error():
    with pytest.raises(DataError, match="'hints' must be a list of texts"):
        hinted([0.0] * 4, {0: 1}, {0: "one"})


def test_the_failure_that_leaves_is_the_same_whatever_the_order():
    batch = make_batch([1] * 4, rewards=[0.0] * 4, step=5, total_steps=10)
    order = torch.tensor([2, 0, 3, 1])
    left = [
        plugin("scaf_grpo").hooks["second_round"](b, Round({0: 1}, {0: HINTS})) for b in (batch, batch.select(order))
    ]
    assert sorted(left[0].ids_NC[:, 0].tolist()) == sorted(left[1].ids_NC[:, 0].tolist())
