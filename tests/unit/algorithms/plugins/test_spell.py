"""SPELL: the rewards of the three roles, and which verdicts are learnt from."""

import math

import pytest
import torch
from makers.batches import make_batch
from makers.made_rounds import MadeRound
from makers.plugin_values import end_step, plugin, shaped

from mmrl.algorithms.plugins.spell import question_reward, verdict_rewards, vote_of
from mmrl.data.sample import MediaPart, TextPart

ASKED = "<question>How many?</question> <answer>3</answer>"
TEXTS = [ASKED, "no question", ASKED.replace("3", "4"), ASKED]
# The first question is solved by one of four answers; of the third one's answers the second is right but not found so.
SCORES = {"s0~question0": [1.0, 0.0, 0.0, 0.0], "s0~question2": [1.0, 0.0, 1.0, 1.0], "s0~question3": [0.0] * 4}
SAID = {f"s0~question{row}": ["three", "3 of them", "four", "ten"] for row in (0, 2, 3)}
VERDICTS = {
    "s0~question0~same0": ["Yes", "Yes", "Yes."],  # all agree: nothing to learn
    "s0~question0~same1": ["Yes", "yes", "No"],  # most say Yes, the task No: no verdict is learnt, the answer is right
    "s0~question0~same2": ["No", "No", "Yes"],  # most say No, and so does the task
    "s0~question0~same3": ["?", "Yes or No", "maybe"],  # neither
}


def round_of(texts=TEXTS, **options):
    given = MadeRound(texts, {**SAID, **VERDICTS}, scores=SCORES)
    used = plugin("spell", **{"answers": 4, "verdicts": 3, "verifier_share": 1.0, **options})
    batch = make_batch([1] * len(texts), rewards=[0.5] * len(texts))
    return used, given, batch, used.hooks["second_round"](batch, given)


@pytest.mark.parametrize(
    ("solved", "expected"),
    [(0.5, 1.0), (0.25, 0.3247), (0.75, 0.3247), (0.125, 0.0796), (0.0, 0.0), (1.0, 0.0)],
)
def test_a_question_is_worth_most_where_half_of_the_answers_are_right(solved, expected):
    assert question_reward(solved) == pytest.approx(expected, abs=1e-4)
    assert math.isnan(question_reward(math.nan))


def test_a_verdict_is_worth_whether_it_is_with_the_majority():
    assert verdict_rewards([1.0, 1.0, 0.0, -1.0]) == (1.0, [1.0, 1.0, 0.0, -1.0], 2 / 3)
    assert verdict_rewards([0.0, 0.0, 1.0]) == (0.0, [1.0, 1.0, 0.0], 2 / 3)
    assert verdict_rewards([-1.0, -1.0, 1.0]) == (-1.0, [-1.0, -1.0, -1.0], None)
    assert [vote_of(text) for text in ("Yes.", "I say: no", "yes, YES", "Yes or no", "")] == [1.0, 0.0, 1.0, -1.0, -1.0]


def test_without_verdicts_the_tasks_reward_counts():
    used, given, _, merged = round_of(verdicts=0)
    # One of four, none at all, three of four, none of four.
    assert shaped(used, merged)[:4] == [0.3247, -1.0, 0.3247, 0.0]
    assert shaped(used, merged)[4:] == [score for row in (0, 2, 3) for score in SCORES[f"s0~question{row}"]]
    first = given.asked[0]
    assert (first.task, first.answer, first.answer_space) == ("answer", "3", None)
    assert first.messages[-1].parts == (MediaPart(0), TextPart("How many?"))
    assert merged.kind == ("fresh",) * 4 + ("recycled",) * 12
    assert len(set(merged.gid_N.tolist())) == 4


def test_verdicts_make_an_answer_right_and_are_learnt_where_they_and_the_task_say_the_same():
    used, given, _, merged = round_of(most=1, texts=[ASKED])
    verdicts = [sample for sample in given.asked if sample.task == "judge"]
    assert verdicts[0].messages[-1].parts[-1] == TextPart(
        "\n\nOne answer to this is:\nthree\n\nAnother one is:\n3\n\nDo both say the same? Answer Yes or No."
    )
    rewards = shaped(used, merged)
    # The second answer is right by its verdicts, so two of four are: 1 for the question. One group of verdicts is left.
    assert rewards == [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]
    assert merged.prompt_id[-1] == "d/s0~question0~same2"


def test_a_question_that_is_not_asked_has_no_reward():
    used, _, _, merged = round_of(verdicts=0, most=1)
    rewards = shaped(used, merged)[:4]
    assert rewards[1] == -1.0 and sum(math.isnan(reward) for reward in rewards) == 2
    metrics = end_step(used, merged.select(torch.arange(4)))
    assert metrics.keys() == {"spell/malformed", "spell/questioner"}


def test_where_nothing_is_asked_all_are_malformed():
    used, given, _, merged = round_of(texts=["a", "b"])
    assert given.asked == [] and shaped(used, merged) == [-1.0, -1.0]
