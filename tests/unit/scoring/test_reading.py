"""Which answers held nothing that their reward could read, by what the parse functions report."""

import pytest
from makers.scoring import answered

from mmrl.config.schema import RewardsSection
from mmrl.scoring.pool import RewardCall, run_call
from mmrl.scoring.router import Router


def unread(reward: str, answer: object, completion: str, **options: object) -> bool:
    (outcome,) = run_call(RewardCall(reward, None, options, ((answered(answer), (completion,)),)))
    assert outcome.event is None
    return outcome.is_unread


@pytest.mark.parametrize(
    ("reward", "answer", "completion", "expected"),
    [
        ("choice", "B", "<answer>A</answer>", False),
        ("choice", "B", "I cannot see it.", True),
        ("choice", "B", "<think>B, I am sure", True),
        ("choice", "B", "A or B", True),
        ("numeric", 3, "4", False),
        ("numeric", 3, "many", True),
        ("temporal_iou", [1.0, 2.0], "5 to 6", False),
        ("temporal_iou", [1.0, 2.0], "at the end", True),
        ("point_in_box", [1, 2, 3, 4], "[50, 60]", False),
        ("point_in_box", [1, 2, 3, 4], "the button", True),
        ("anls", ["red"], "blue", False),
        ("anls", ["red"], "<answer></answer>", True),
        ("relaxed_accuracy", "red", "blue", False),
        ("relaxed_accuracy", "12", "a dozen of them", True),
    ],
)
def test_an_answer_is_unread_where_the_parser_finds_nothing(reward, answer, completion, expected):
    assert unread(reward, answer, completion) is expected


def test_the_answer_of_the_row_is_not_taken_for_the_completion():
    """The row's answer is a letter that is read; the completion, which holds the same letter, is none."""
    assert unread("choice", "B", "A or B") is True
    assert unread("numeric", 3, "3 or 4") is True


def test_each_completion_of_a_group_is_told_apart_and_format_parts_do_not_count():
    parts = [{"reward": "choice"}, {"reward": "format", "is_format": True, "weight": 0.1}]
    section = RewardsSection.model_validate({"workers": 0, "tasks": {"t": parts}})
    scores = Router(section).score([(answered("B"), ["A", "no idea"]), (answered("B", sample_id="s2"), ["what?", "B"])])
    assert [[scores.is_unread(group, n) for n in (0, 1)] for group in (0, 1)] == [[False, True], [True, False]]
