"""The shared table of metric cases, and what two other tools gave for each: equal, or different for a known reason.

docs/metrics_compared.md lists the differences; a test compares it with the table.
"""

import json
import re
from pathlib import Path

import pytest
from makers.scoring import answered
from makers.shared import shared_cases

from mmrl.plugins import resolve_function
from mmrl.scoring.parse import parse_choice

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics_compared.md"
REWARDS = {"MRA": "relative_accuracy", "BOX": "box_iou", "TIOU": "temporal_iou", "ANLS": "anls"}
# A reversed span is worth nothing here (as in Time-R1), and of two spans none is taken.
STRICTER = {"D6": 0.0, "D10": 0.0}
SQUARE = "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>"
TABLES = {
    "I2": (SQUARE, SQUARE.replace("d</td>", "x</td>")),
    "I3": (SQUARE.replace(">a<", ">abcd<"), SQUARE.replace(">a<", ">abcx<")),
    "I4": (SQUARE, SQUARE.replace("<tr><td>c</td><td>d</td></tr>", "")),
    "I6": (SQUARE, SQUARE.replace("<td>a</td><td>b</td>", "<th>a</th><th>b</th>")),
    "I7": (
        SQUARE,
        re.sub(r"<table>(.*?</tr>)(.*)</table>", r"<table><thead>\1</thead><tbody>\2</tbody></table>", SQUARE),
    ),
    "I9": (SQUARE, ""),
    "I10": (SQUARE, "a b, c d"),
}


def rows(family: str) -> list[dict]:
    lines = (shared_cases() / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["family"] == family]


def score(name: str, completion: str, answer, **options) -> float:
    return resolve_function(name, kind="rewards", default="score")(completion, answered(answer), **options)


@pytest.mark.parametrize("family", REWARDS)
def test_numbers(family):
    found = [row for row in rows(family) if row["id"] in STRICTER or not isinstance(row["expected"], str)]
    assert len(found) >= 6
    for row in found:
        gold, prediction = row["input"]
        text = prediction if isinstance(prediction, str) else " ".join(map(str, prediction))
        first = row["expected"][0] if isinstance(row["expected"], list) else row["expected"]
        wanted = STRICTER.get(row["id"], first)
        assert score(REWARDS[family], text, gold) == pytest.approx(wanted, abs=1e-4), row["id"]


def test_tables():
    for row in rows("TEDS"):
        gold, prediction = TABLES[row["id"]]
        assert score("teds", prediction, gold, official=True) == pytest.approx(row["expected"], abs=1e-4), row["id"]


def test_relaxed_accuracy():
    found = rows("RELAXED")
    assert [score("relaxed_accuracy", row["input"][1], row["input"][0]) for row in found] == [
        float(row["expected"]) for row in found
    ]
    by_source = {
        row["id"]: bool(score("relaxed_accuracy", row["input"][1], row["input"][0], official=True)) for row in found
    }
    assert by_source == {row["id"]: row["anchors"]["lmms"] for row in found}


def test_letters():
    for row in rows("MCQ"):
        wanted = row["expected"] if row["expected"] in "ABCD" else None
        answers = [letter for letter in "ABCD" if _chosen(row["input"], letter)]
        assert answers == ([wanted] if wanted else []), row["id"]


def _chosen(completion: str, letter: str) -> bool:
    sample = answered(letter, options=["one", "two", "three", "four"])
    return resolve_function("choice", kind="rewards", default="score")(completion, sample) == 1.0


@pytest.mark.parametrize(
    ("case", "scale", "wanted"),
    [("G1", (1, 1), 1), ("G2", (1000, 1000), 1), ("G3", (1000, 1000), 1), ("G3", (2000, 1000), 0)],
    ids=["G1 in 0..1", "G2 in pixels", "G3 in 0..1000", "G3 in pixels"],
)
def test_clicks_in_the_space_that_is_declared(case, scale, wanted):
    (row,) = (row for row in rows("CLICK") if row["id"] == case)
    (left, top, right, bottom), _, click = row["input"]
    box = [left * scale[0], top * scale[1], right * scale[0], bottom * scale[1]]
    assert score("point_in_box", click, box) == wanted


def test_the_page_explains_every_row_on_which_the_tools_differ():
    families = ("MRA", "BOX", "TIOU", "ANLS", "RELAXED", "MCQ", "CLICK", "TEDS")
    differing = {row["id"] for family in families for row in rows(family) if row["disagree"]}
    explained = set(re.findall(r"\b[A-I]\d+\b", PAGE.read_text(encoding="utf-8")))
    assert differing <= explained, sorted(differing - explained)


def test_a_letter_that_is_not_among_the_options_is_none():
    assert parse_choice("E", letters="ABCD") is None
