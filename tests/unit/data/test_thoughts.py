"""Thought dropout: what a target becomes, and which rows."""

import pytest

from mmrl.data.thoughts import is_dropped, without_thought

THOUGHT = "<think>First\nthe map.</think><answer>2</answer>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (THOUGHT, "<think>\n\n</think><answer>2</answer>"),
        ("<answer>2</answer>", "<answer>2</answer>"),
        ("<think>open <answer>2</answer>", "<think>open <answer>2</answer>"),
        ("a <think>x</think> b <think>y</think>", "a <think>\n\n</think> b <think>y</think>"),
        ("<think>\\1 \\g<0></think>c", "<think>\n\n</think>c"),
    ],
)
def test_the_first_thought_is_left_empty(text, expected):
    assert without_thought(text) == expected
    assert without_thought(expected) == expected


def test_half_of_the_rows_are_dropped_always_the_same_ones():
    names = [f"0/sft/d/{n}" for n in range(4000)]
    half = [is_dropped(name, share=0.5) for name in names]
    assert half == [is_dropped(name, share=0.5) for name in names]
    assert sum(half) / 4000 == pytest.approx(0.5, abs=0.025)
    more = [is_dropped(name, share=0.75) for name in names]
    assert all(b for a, b in zip(half, more, strict=True) if a)
    assert [is_dropped(name, share=share) for name in names[:50] for share in (0.0, 1.0)] == [False, True] * 50
