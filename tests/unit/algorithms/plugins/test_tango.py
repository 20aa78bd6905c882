"""Tango: whose turn a step is, what a verdict is worth, and what is learnt from."""

import pytest
import torch
from makers.batches import make_batch
from makers.made_rounds import MadeRound
from makers.plugin_values import plugin, shaped

REWARDS = [1.0, 0.0, 1.0]
REPLIES = {
    "s0~verdict0": "Step 1: correct\nStep 2: Correct.\n- Step 3: wrong\n<answer>Yes</answer>",
    "s0~verdict1": "Step 1: correct\nstep 2: correct\n<answer>No</answer>",
    "s0~verdict2": "It looks fine: correct. <answer>Yes</answer>",
}


def round_of(step, **options):
    given, used = MadeRound(replies=REPLIES), plugin("tango", **options)
    batch = make_batch([1] * 3, rewards=REWARDS, step=step)
    return used, batch, given, used.hooks["second_round"](batch, given)


def test_in_a_policy_step_each_answer_gains_by_the_share_of_its_steps():
    used, _, given, merged = round_of(0)
    assert len(merged) == 3 and len(given.asked) == 3
    assert shaped(used, merged) == [1.3333, 0.5, 1.0]
    assert used.hooks["keep"](merged, torch.tensor(REWARDS)).tolist() == [True] * 3
    assert given.words(given.asked[1]) == (
        "\n\nAn answer to this was:\nthought 1\nanswer 1\n\nJudge each of its steps on a line of its own, as in `Step"
        " 1: correct` or `Step 1: wrong`. Then answer Yes if its result is right, else No."
    )


def test_in_a_verifier_step_only_verdicts_are_learnt_from_by_the_answers_own_reward():
    used, _, given, merged = round_of(1, answers=2)
    assert [(item.task, item.answer) for item in given.asked] == [("judge", "Yes"), ("judge", "No"), ("judge", "Yes")]
    assert len(merged) == 9
    assert used.hooks["keep"](merged, torch.zeros(9)).tolist() == [False] * 3 + [True] * 6
    assert shaped(used, merged)[:3] == REWARDS


@pytest.mark.parametrize(("turns", "items"), [((2, 1), [3, 3, 2, 3]), ((1, 2), [3, 2, 2, 3]), ((1, 0), [3, 3, 3, 3])])
def test_steps_take_turns(turns, items):
    found = [round_of(step, policy_steps=turns[0], verifier_steps=turns[1], most=2) for step in range(4)]
    assert [len(given.asked) for _, _, given, _ in found] == items


def test_a_verifier_step_without_answers_to_judge_is_the_policys():
    used, given = plugin("tango"), MadeRound(texts=["", ""])
    batch = make_batch([1, 1], step=1)
    assert used.hooks["second_round"](batch, given) is batch
    assert used.hooks["keep"](batch, torch.zeros(2)).tolist() == [True, True]


def test_without_a_coefficient_policy_steps_ask_nothing():
    _, batch, given, merged = round_of(0, coef=0.0)
    assert merged is batch and given.asked == []
