"""What is read from a completion, and what is refused. Most rows are public faults of other frameworks."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers.shared import shared_cases

from mmrl.scoring import parse as p


@pytest.mark.parametrize(
    ("completion", "answer", "expected"),
    [
        ("<think>t</think><answer> B </answer>", "auto", "B"),
        ("<think>one\ntwo</think>\n<answer>\nline 1\nline 2\n</answer>", "auto", "line 1\nline 2"),
        ("<answer>A</answer> no: <answer>B</answer>", "tag", "B"),
        ("<answer>A</answer><think>hm", "auto", None),
        ("<think><answer>A</answer></think> B", "auto", "B"),
        ("thought goes on</think>\n42", "auto", "42"),
        ("<answer>it is \\boxed{7}</answer>", "auto", "7"),
        ("<answer>it is \\boxed{7}</answer>", "tag", "it is \\boxed{7}"),
        ("\\boxed{1} then \\boxed{\\frac{1}{2}}", "auto", "\\frac{1}{2}"),
        ("\\boxed{x \\} y}", "boxed", "x \\} y"),
        ("\\boxed{unclosed", "boxed", None),
        ("\\boxed{a {b}", "boxed", None),
        ("\\boxed{ \\boxed{3}", "boxed", "3"),
        ("\\boxed{\\boxed{3} m}", "boxed", "\\boxed{3} m"),
        ("} { \\boxed{3}", "boxed", "3"),
        ("no box", "boxed", None),
        ("no tag", "tag", None),
        ("  plain  ", "auto", "plain"),
        ("<answer></answer>", "auto", None),
        ("<answer>cut off", "tag", None),
        ("<answer>cut off", "auto", None),
        ("", "auto", None),
        (" \n", "plain", None),
    ],
)
def test_the_answer_is_found_where_it_stands(completion, answer, expected):  # faults 67, 70; EasyR1 r1v.py DOTALL
    assert p.extract_prediction(completion, answer=answer) == expected


def test_an_unknown_answer_format_lists_the_known_ones():
    with pytest.raises(ValueError, match="auto, tag, boxed, plain"):
        p.extract_prediction("x", answer="xml")  # type: ignore[arg-type]


GOOD = "<think>a\nb</think>\n<answer>c\nd</answer>"


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        (GOOD, True),
        (f"  {GOOD}\n", True),
        (GOOD + GOOD, False),
        (GOOD + "<answer>e</answer>", False),
        ("<think>x</think>" + GOOD, False),
        ("<think>a<think>b</think><answer>c</answer>", False),
        ("<think>a</think> so <answer>c</answer>", False),
        (GOOD + " done", False),
        ("<answer>c</answer><think>a</think>", False),
        ("<think>a<answer>b</answer></think><answer>c</answer>", False),
        ("<think> </think><answer>c</answer>", False),
        ("<think>a</think><answer></answer>", False),
        ("", False),
    ],
)
def test_strict_think_answer_format(completion, expected):  # fault 67
    assert p.has_format(completion) is expected


@pytest.mark.parametrize(
    ("completion", "style", "prefilled", "expected"),
    [
        ("a</think><answer>b</answer>", "think_answer", True, True),
        ("<think>a</think><answer>b</answer>", "think_answer", True, False),
        ("<think>a</think> so \\boxed{b}.", "think_boxed", False, True),
        ("<think>a</think> \\boxed{b} or \\boxed{c}", "think_boxed", False, False),
        ("<think>a</think> \\boxed{ }", "think_boxed", False, False),
        ("so \\boxed{b}", "boxed", False, True),
        ("so \\boxed{b} \\boxed{", "boxed", False, False),
        ("<answer>b</answer>", "answer", False, True),
        ("b", "answer", False, False),
    ],
)
def test_other_styles(completion, style, prefilled, expected):
    assert p.has_format(completion, style=style, prefilled_think=prefilled) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The correct answer is (B).", "B"),  # fault 71
        ("Based on", None),  # fault 71
        ("\\Delta E", None),  # fault 71
        ("A or B or C", None),  # fault 70
        ("(A) or (B)", None),
        ("A, B", None),
        ("The answer is A or B.", None),
        ("b", "B"),
        ("\\text{B}", "B"),
        ("\\textbf{(C)}", "C"),
        ("B is correct", "B"),
        ("Neither A nor B is correct", None),
        ("I don't think the answer is A", None),
        ("The answer is A because it is red", "A"),
        ("The answer is A red car", None),
        ("I think (B)", "B"),
        ("It is not (B)", None),
        ("B. It is not raining", "B"),
        ("A. one B. two C. three", None),
        ("A) one\nB) two", None),
        ("Option A is wrong", None),
        ("The answer is A. Wait, the answer is B.", "B"),
        ("It needs vitamin C.", None),
        ("A", "A"),
        ("AB", None),
        ("", None),
    ],
)
def test_choice_letters(text, expected):
    assert p.parse_choice(text) == expected


def _choice_cases():
    rows = [json.loads(line) for line in (shared_cases() / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["family"] == "MCQ"]


def test_choice_cases_shared_with_other_frameworks():
    for row in _choice_cases():
        prediction = p.extract_prediction(row["input"]) or ""
        letter = p.parse_choice(prediction, letters="ABCD", options=("one", "two", "three", "four"))
        assert letter == (row["expected"] if len(row["expected"]) == 1 else None), row


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42", 42.0),
        ("The answer is 42.", 42.0),
        ("-3.5", -3.5),
        ("\u22123.5", -3.5),
        ("1,200", 1200.0),
        ("1,200,000.5 people", 1200000.5),
        ("$12", 12.0),
        ("5%", 0.05),
        ("5\\%", 0.05),
        ("three", 3.0),
        ("3 chairs", 3.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("2 + 3 = 5", None),
        ("1,2", None),
        ("none", None),
        ("9" * 400, None),
        ("", None),
    ],
)
def test_numbers(text, expected):
    assert p.parse_number(text) == expected


@pytest.mark.parametrize(
    "text",
    (
        *("5..6", "5...6", "5.6.7", "5,000.5.6", "1-2", "1e", "1.5e+", "2E-", "1e5.5", "--5", "-- 5", "+-5", "-$-5"),
        *("1_000", "0x10", "5x3", "1,2345", "about 5..6 m"),
    ),
)
def test_what_only_begins_or_ends_like_a_number_is_none(text):
    assert p.parse_number(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is 5...", 5.0),
        ("5.", 5.0),
        ("5eggs", 5.0),
        ("5 eggs", 5.0),
        ("3m2", 3.0),
        ("5km/h", 5.0),
        ("20th", 20.0),
        ("1e5 m", 1e5),
        ("5 \u2013 I think", 5.0),
        ("- 5", -5.0),
        ("GPT-5", 5.0),
        ("x=-5", -5.0),
        ("-$5", -5.0),
        ("$1,200.50.", 1200.5),
        ("1,200%", 12.0),
    ],
)
def test_units_signs_and_full_stops_beside_a_number(text, expected):
    assert p.parse_number(text) == expected


def test_percent_signs_can_be_ignored():
    assert p.parse_number("5%", percent="ignore") == 5.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3,1,2", (3, 1, 2)),
        ("[3, 1, 2]", (3, 1, 2)),
        ("3 1 2.", (3, 1, 2)),
        ("3.5, 1", None),
        ("first 3, then 1", None),
        ("", None),
    ],
)
def test_integers(text, expected):
    assert p.parse_integers(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "3 1 6 5",
        "3, 1, 6, 5",
        "[3, 1, 6, 5]",
        "[[3, 1, 6, 5]]",
        "(3, 1), (6, 5)",
        "[[3, 1], [6, 5]]",
        "<|box_start|>(3,1),(6,5)<|box_end|>",
        "<|object_ref_start|>the dog<|object_ref_end|><|box_start|>(3,1),(6,5)<|box_end|>",
        "the dog(3,1),(6,5)",
        '{"bbox_2d": [3, 1, 6, 5]}',
        '```json\n[{"bbox_2d": [3, 1, 6, 5], "label": "dog"}]\n```',
        '{"boxes": [3.0, 1.0, 6.0, 5.0]}',
        "The dog is at [3, 1, 6, 5].",
        "The dog is at [3, 1, 6, 5], that is (3, 1, 6, 5).",
    ],
)
def test_one_box_in_every_common_spelling(text):  # fault 70
    assert p.parse_values(text, count=4) == (3, 1, 6, 5)


@pytest.mark.parametrize(
    "text",
    [
        "3 dogs, 1 cat, 6 cows, 5 hens",
        "[3, 1, 6, 5] or [4, 1, 6, 5]",
        "[[3, 1, 6, 5], [4, 1, 6, 5]]",
        '[{"bbox_2d": [3, 1, 6, 5]}, {"bbox_2d": [4, 1, 6, 5]}]',
        '{"bbox_2d": [3, 1, 6, 5], "point_2d": [3, 1]}',
        "[3, 1, 6]",
        "dogs at (3, 1), (6, 5), (7, 7)",
        "dogs at (3,1),(6,5) and (4,1),(6,5)",
        "from (3, 1) to (6, 5)",
        "[3, 1, 6, NaN]",
        "[3, 1, 6, true]",
        "[3, 1, 6, 1" + "0" * 400 + "]",
        "3-1-6-5",
        "[" * 100_000,
        "",
    ],
)
def test_no_box_is_guessed(text):  # fault 70
    assert p.parse_values(text, count=4) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("24.3 - 30.4 seconds", (24.3, 30.4)),
        ("The event starts at 24.3s and ends at 30.4s.", (24.3, 30.4)),
        ("12.54 to 17.83", (12.54, 17.83)),
        ("From 8s to 12s.", (8, 12)),
        ("0:10 - 0:20", (10, 20)),
        ("1:02:03 to 1:02:04.5", (3723, 3724.5)),
        ("15-25", (15, 25)),
        ("15 25", (15, 25)),
        ('{"time": [15, 25]}', (15, 25)),
        ("20 - 10", (20, 10)),
        ("From 8 to 12, and again 10 to 20 seconds", None),
        ("the 2 dogs appear at 10 s", None),
        ("at 10 s", None),
        ("", None),
    ],
)
def test_spans(text, expected):
    assert p.parse_span(text) == expected


@given(st.text(alphabet="AB \\{}boxed<think/aswr>()[]0123456789.,:-s%\n", max_size=80))
def test_no_text_breaks_a_parser(text):
    prediction = p.extract_prediction(text)
    assert prediction is None or prediction == prediction.strip() != ""
    p.has_format(text)
    for parser in (p.parse_choice, p.parse_number, p.parse_integers, p.parse_span):
        parser(text)
    p.parse_values(text, count=4)


@pytest.mark.parametrize("piece", ["\\boxed{", "(1, ", "not (A) ", "answer ", "1 s ", "1,111", "<answer>", "{", "\n"])
def test_a_text_a_policy_repeats_for_ever_is_read_in_linear_time(piece):
    text = piece * (40_000 // len(piece))
    start = time.process_time()
    test_no_text_breaks_a_parser.hypothesis.inner_test(text)  # type: ignore[attr-defined]
    assert time.process_time() - start < 1.5


def test_a_number_of_very_many_digits_is_read_in_linear_time():
    start = time.process_time()
    assert p.parse_values("it is [" + "9" * 40_000 + " there", count=4) is None
    assert time.process_time() - start < 1.5


@given(st.tuples(*[st.floats(-1e6, 1e6).map(lambda v: round(v, 3))] * 4))
def test_four_written_numbers_are_read_back(box):
    for text in (json.dumps(box), " ".join(map(str, box)), f"at {list(box)} there"):
        assert p.parse_values(text, count=4) == box


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", " ", "\n", "x"]), max_size=9).map("".join)
)
def test_is_tagged_is_the_expression_of_the_r1_family(text):
    whole = re.fullmatch(r"<think>.*?</think>\s*<answer>.*?</answer>", text, re.DOTALL)
    assert p.is_tagged(text) == (whole is not None)


def test_a_megabyte_of_tags_is_read_in_a_moment():
    start = time.perf_counter()
    assert not p.is_tagged("<think>a</think><answer>b</answer>, " * 30_000)
    assert not p.is_tagged("<think>a" + "</think> <answer>" * 60_000 + "</answer>x")
    assert time.perf_counter() - start < 2
