"""Every shipped reward on the worked numbers of its docstring and on the faults it must not repeat."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from makers.scoring import answered

from mmrl.errors import RewardError
from mmrl.plugins import resolve_function

NINE = [5, 1, 3, 7, 9, 2, 4, 8, 6]


def value(reward, answer, completion, keywords=None, **columns):
    score = resolve_function(reward, kind="rewards", default="score")
    return score(completion, answered(answer, **columns), **(keywords or {}))


def boxed(text, thought="why"):
    return f"<think>{thought}</think> \\boxed{{{text}}}"


LOOP = "\nthis very same line is said once more" * 4 + "\n"

TABLE = [
    ("choice", "B", "<answer>(B)</answer>", {}, 1),
    ("choice", "B", "The correct answer is (B).", {}, 1),  # fault 71
    ("choice", "T", "The correct answer is (B).", {}, 0),  # fault 71
    ("choice", "B", "Based on", {}, 0),  # fault 71
    ("choice", "E", "\\boxed{\\Delta E}", {}, 0),  # fault 71
    ("choice", "B", "<answer>A or B or C</answer>", {}, 0),  # fault 70
    ("choice", "<answer>B</answer>", "b", {}, 1),
    ("choice", "B", "<think>x</think>\n<answer>\nB\n</answer>", {}, 1),  # EasyR1 r1v.py
    ("choice", "B", "<answer>B</answer>", {"answer": "boxed"}, 0),
    ("choice", "B", "", {}, 0),  # empty completion
    ("numeric", 3.14, "3.14", {}, 1),
    ("numeric", 3.14, "3.141", {}, 0),
    ("numeric", 3.14, "3.141", {"decimals": 2}, 1),
    ("numeric", 100, "105", {"rel_tol": 0.05}, 1),
    ("numeric", 100, "105.1", {"rel_tol": 0.05}, 0),
    ("numeric", 0, "0.01", {"rel_tol": 0.05}, 0),
    ("numeric", 0, "0.01", {"abs_tol": 0.01}, 1),
    ("numeric", 0.3, "0.30000000000000004", {}, 1),
    ("numeric", "5%", "0.05", {}, 1),
    ("numeric", "5%", "5", {}, 0),
    ("numeric", "5%", "5", {"percent": "ignore"}, 1),
    ("numeric", 42, "41 or 42", {}, 0),
    ("numeric", 42, "", {}, 0),
    ("math", "\\frac{3}{4}", "<answer>0.75</answer>", {}, 1),
    ("math", "\\frac{3}{4}", "\\boxed{3/4}", {}, 1),
    ("math", "\\frac{3}{4}", "0.7", {}, 0),
    ("math", "\\frac{3}{4}", "three quarters", {}, 0),
    ("math", "$2\\sqrt{2}$", "\\boxed{\\sqrt{8}}", {}, 1),
    ("math", 5, "\\boxed{}", {}, 0),
    ("math", 5, "", {}, 0),
    ("exact_text", "Blue", "blue", {}, 1),
    ("exact_text", "Blue", "blue.", {}, 0),
    ("exact_text", "Blue", "blue.", {"punctuation": False}, 1),
    ("exact_text", "Blue", "blue", {"case": True}, 0),
    ("exact_text", "Blue", "light blue", {}, 0),
    ("exact_text", "-5", "5", {}, 0),
    ("exact_text", ["NYC", "New  York"], "new york", {}, 1),
    ("exact_text", "the cat", "Cat", {"articles": False}, 1),
    ("exact_text", 7, "7", {}, 1),
    ("box_iou", [10, 10, 60, 60], "20 20 70 70", {}, 0.470588),
    ("box_iou", [10, 10, 60, 60], "10 10 60 60", {}, 1),
    ("box_iou", [10, 10, 60, 60], "60 60 10 10", {}, 0),
    ("box_iou", [10, 10, 60, 60], "It is [10, 10, 60, 60], I think.", {}, 1),  # fault 70
    ("box_iou", [0, 0, 100, 100], "0 0 100 50", {"threshold": 0.5}, 1),
    ("box_iou", [0, 0, 100, 100], "0 0 100 49.9", {"threshold": 0.5}, 0),
    ("box_iou", [0, 0, 100, 100], "", {}, 0),
    ("temporal_iou", [10, 18], "12 to 20", {}, 0.6),
    ("temporal_iou", [10, 18], "5 to 30", {}, 0.32),
    ("temporal_iou", [10, 18], "18 to 10", {}, 0),
    ("temporal_iou", [10, 15], "0 to 5", {}, 0),
    ("temporal_iou", [10, 18], "10 to 10", {}, 0),
    ("temporal_iou", [10, 20], "3 - 20", {"threshold": 0.5}, 1),
    ("rotation", 90, "90", {}, 1),
    ("rotation", "90", "90 degrees", {}, 1),
    ("rotation", 90, "90 degrees", {"official": True}, 0),
    ("rotation", 90, "450", {}, 1),
    ("rotation", 90, "-270", {}, 1),
    ("rotation", 90, "180", {}, 0),
    ("rotation", 0, "", {}, 0),
    ("position", "top-left", "Top left", {}, 1),
    ("position", "top-left", "Top-left", {"official": True}, 0),
    ("position", "top-left", "in the top-left quadrant", {}, 1),
    ("position", "top-left", "top-left or top-right", {}, 0),
    ("position", "top-left", "left", {}, 0),
    ("jigsaw", NINE, "5,1,3,7,9,2,4,8,6", {}, 1),
    ("jigsaw", NINE, "1,5,3,7,9,2,4,8,6", {}, 0.155556),
    ("jigsaw", NINE, "5,5,5,5,5,5,5,5,5", {}, 0),
    ("jigsaw", NINE, "5,5,5,5,5,5,5,5,5", {"official": "ssl4rl"}, 0.111111),
    ("jigsaw", NINE, "1,2,4,3,5,6,7,9,8", {}, 0),
    ("jigsaw", NINE, boxed("5,1,3,7,9,2,4,8,6"), {"official": "visual_jigsaw"}, 1.2),
    ("jigsaw", NINE, boxed("1,5,3,7,9,2,4,8,6"), {"official": "visual_jigsaw"}, 0.355556),
    ("jigsaw", NINE, boxed("5,5,5,5,5,5,5,5,5"), {"official": "visual_jigsaw"}, 0.2),
    ("jigsaw", NINE, boxed("1,2,4,3,5,6,7,9,8"), {"official": "visual_jigsaw"}, 0.2),
    ("jigsaw", NINE, boxed("5,1,3,7,9,2,4,8,6", LOOP), {"official": "visual_jigsaw"}, 0.7),
    ("jigsaw", NINE, "5,1,3,7,9,2,4,8,6", {"official": "visual_jigsaw"}, 0),
    ("jigsaw", "2,4,1,3", "2,4,3,1", {}, 0.1),
    ("jigsaw", "2,4,1,3", boxed("2,4,3,1"), {"official": "visual_jigsaw"}, 0.2),
    ("jigsaw", "3,2,1,4", "3,1,2,4", {"official": "ssl4rl"}, 0.5),
    ("jigsaw", "3,2,1,4", "3,3,3,3", {"official": "ssl4rl"}, 0.25),
    ("jigsaw", "3,2,1,4", "3,2", {"official": "ssl4rl"}, 0.5),
    ("jigsaw", "3,2,1,4", "3,2", {}, 0),
    ("order", "C,A,B,D", "C, A, B, D", {}, 1),
    ("order", "C,A,B,D", "C -> A -> B -> D", {}, 1),
    ("order", "C,A,B,D", "A, C, B, D", {}, 0.1),
    ("order", "C,A,B,D", "A, C, B, D", {"measure": "pairs"}, 0.166667),
    ("order", "C,A,B,D", "C, A", {}, 0),
    ("order", ["cut bread", "eat"], "Eat, cut bread", {}, 0),
    ("order", NINE, "1,5,3,7,9,2,4,8,6", {}, 0.155556),
    ("order", "2,1,3", "first 2, then 1 and 3", {"official": True}, 1),
    ("order", "2,1,3", "first 2, then 1 and 3", {}, 0),
    ("format", None, "<think>a\nb</think>\n<answer>b</answer>", {}, 1),  # fault 67
    ("format", None, "<think>a</think><answer>b</answer>" * 2, {}, 0),  # fault 67
    ("format", None, "<answer>b</answer>", {}, 0),
    ("format", None, "<answer>b</answer>", {"style": "answer"}, 1),
    ("format", None, "a</think><answer>b</answer>", {"prefilled_think": True}, 1),
    ("format", None, "", {}, 0),
]


@pytest.mark.parametrize(("reward", "answer", "completion", "options", "expected"), TABLE)
def test_worked(reward, answer, completion, options, expected):
    assert value(reward, answer, completion, options) == pytest.approx(expected, abs=1e-6)


def test_choice_knows_the_row_s_options():
    options = ["one", "two", "three", "four"]
    assert value("choice", "C", "three", options=options) == 1
    assert value("choice", "three", "C", options=options) == 1
    assert value("choice", "C", "E", options=options) == 0
    assert value("choice", "B", "two", options={"A": "one", "B": "two"}) == 1


@pytest.mark.parametrize(
    ("reward", "answer"),
    [
        ("choice", "Paris"),
        ("choice", None),
        ("choice", 2),
        ("numeric", "about five"),
        ("numeric", [1]),
        ("math", "{{{"),  # fault 68
        ("math", ""),  # fault 68
        ("math", "blue"),
        ("math", None),
        ("exact_text", None),
        ("exact_text", []),
        ("exact_text", ["a", None]),
        ("box_iou", [1, 2, 3]),
        ("box_iou", [10, 10, 10, 20]),
        ("box_iou", "left"),
        ("temporal_iou", [20, 10]),
        ("temporal_iou", None),
        ("rotation", "left"),
        ("position", "left"),
        ("jigsaw", [1, 1, 2]),
        ("jigsaw", "a,b"),
        ("order", ["only"]),
        ("order", "a,a"),
    ],
)
@pytest.mark.parametrize("completion", ["{{{", "A", ""])
def test_a_bad_answer_is_an_error_that_names_the_sample_never_a_score(reward, answer, completion):  # fault 68
    with pytest.raises(RewardError, match=r"rows\.jsonl:7 \(id=s1\): the answer .* is not"):
        value(reward, answer, completion)


def test_math_works_outside_the_main_thread():  # fault 69
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(value, "math", "1/2", "0.5").result() == 1
