"""Worked cases of every metric, through the rewards and options of the shipped task files; the page of differences."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from makers.pages import ROOT
from makers.shared import SHARED
from makers.worked_cases import (
    CASES,
    CHOICES,
    Case,
    anls,
    box,
    choice,
    click,
    letter_of,
    mra,
    relaxed,
    scores_of,
    span,
    table,
)

PAGE = ROOT / "docs" / "metrics_compared.md"
FILE = SHARED / "cases" / "metrics.jsonl"
BY_ID = {case.id: case for case in CASES}
POLICIES: dict[str, dict[str, Any]] = {
    "abs": {"box_space": "model_px"},
    "rel1000": {"box_space": "0..1000"},
    "first": {"several": "first"},
    "last": {"several": "last"},
}
COLUMNS = {
    "lmms": "lmms-eval",
    "lmms_mvbench": "lmms-eval",
    "lmms_no_optional_deps": "lmms-eval",
    "lmms(best of all boxes, both scales)": "lmms-eval",
    "vlmek": "VLMEvalKit",
    "vlmek_can_infer": "VLMEvalKit",
    "vlmek_videomme": "VLMEvalKit",
    "vlmek(first box, scale guessed)": "VLMEvalKit",
    "evr1": "EasyVideoR1",
    "vero": "Vero",
    "official": "source",
}
# What a failed request counts is shown by whole runs (test_evaluate_servers.py, test_exchange.py).
OF_RUNS = {"K17"}
VALUES = {"right": 1.0, "wrong": 0.0}
_OPTIONS = re.compile(r"(?:`(?P<reward>\w+)` with )?`(?P<options>[^`]+)`: (?P<value>[\w.]+)(?: \((?P<tools>[^)]+)\))?")


def file_rows() -> list[Any]:
    if not FILE.is_file():
        skipped = pytest.mark.skip(reason="the shared cases folder is not beside this checkout")
        return [pytest.param(None, marks=skipped)]
    rows = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return [pytest.param(row, id=row["id"]) for row in rows]


def page_rows() -> dict[str, dict[str, str]]:
    """The rows of the page's table by case."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    head, _, *body = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    found = [dict(zip(head, cells, strict=True)) for cells in body]
    by_case = {row["case"]: row for row in found}
    assert len(by_case) == len(found)
    return by_case


def case_of(row: Mapping[str, Any]) -> Case:
    """The case as the file has it."""
    id_, given, wanted = row["id"], row["input"], row["expected"]
    if row["family"] == "ANLS":
        return anls(id_, *given, wanted)
    if row["family"] == "RELAXED":
        return relaxed(id_, *given, row["anchors"]["lmms"])
    if row["family"] == "TIOU":
        return span(id_, *given, wanted[0] if isinstance(wanted, list) else 0.0)
    if row["family"] == "MRA":
        return mra(id_, *given, wanted)
    if row["family"] == "TEDS":
        return table(id_, wanted)
    if row["family"] == "CLICK":
        return click(id_, given[0], tuple(given[1]), given[2], 1.0, "0..1")
    if isinstance(wanted, list):
        return box(id_, *given, wanted[0])
    return box(id_, [100, 100, 300, 300], given[1], 1.0, size=(2000, 1000))  # C10 and C11 name the picture in words


def under_policies(row: Mapping[str, Any], case: Case) -> Iterator[tuple[Case, float]]:
    """`1.0 under rel1000 / 0.2 under abs` and `0.1667 if first span, 1.0 if last`."""
    for said in re.split(r"[/,]", row["expected"]):
        for name in POLICIES:
            if name in said:
                yield case.with_options(POLICIES[name]), float(said.split()[0])


def assert_worth(case: Case, wanted: float | Mapping[str, float]) -> None:
    found = scores_of(case)
    for part, value in (wanted if isinstance(wanted, Mapping) else {"score": wanted}).items():
        assert found[part] == pytest.approx(float(value), abs=1e-4), (case.id, part)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_worked_case(case):
    assert_worth(case, case.wanted)


@pytest.mark.parametrize("id_", CHOICES)
def test_the_letter_that_a_text_is_read_as(id_):
    said, letter = CHOICES[id_]
    assert letter_of(choice(id_, said)) == letter


@pytest.mark.parametrize("row", file_rows())
def test_a_case_of_the_shared_file(row):
    if row["family"] == "MCQ":
        letter = row["expected"] if row["expected"] in "ABCD" else None
        assert (row["input"], letter) == CHOICES[row["id"]]
        return
    case, wanted = case_of(row), row["expected"]
    if row["family"] == "RELAXED":
        assert_worth(case, case.wanted)
        assert_worth(case.with_options({"official": False}), float(wanted))
    elif isinstance(wanted, str):
        expected = list(under_policies(row, case))
        assert len(expected) == 2
        for variant, value in expected:
            assert_worth(variant, {case.part: value})
    elif isinstance(wanted, list):
        parts = ("iou", "at_5") if row["family"] == "BOX" else ("iou", "at_3", "at_5", "at_7")
        assert_worth(case, dict(zip(parts, wanted, strict=True)))
    else:
        assert_worth(case, float(wanted))
    assert (BY_ID[case.id].answer, BY_ID[case.id].said) == (case.answer, case.said)


@pytest.mark.parametrize("row", file_rows())
def test_the_page_says_what_each_tool_gives_where_they_differ(row):
    cells = page_rows().get(row["id"])
    assert (cells is not None) == row["disagree"]
    if cells is not None:
        found = {name: cells[name] for name in dict.fromkeys(COLUMNS.values())}
        assert found == dict.fromkeys(found, "") | anchors_of(row)
        assert cells["why"]


def anchors_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The tools' results as the page writes them; of two readers of one tool both where they differ."""
    cells: dict[str, list[str]] = {}
    for key, value in row["anchors"].items():
        if key in COLUMNS and value != "n/a(float)":
            said = cells.setdefault(COLUMNS[key], [])
            said += [text for text in [written(value)] if text not in said]
    return {name: ", ".join(said) for name, said in cells.items()}


def written(value: float | str | None) -> str:
    if isinstance(value, bool):
        return "right" if value else "wrong"
    return "none" if value in (None, "-") else value if isinstance(value, str) else f"{value:g}"


@pytest.mark.parametrize("id_", page_rows())
def test_the_page_says_what_mmrl_gives(id_):
    """The column of mmrl, and each of the options named beside it."""
    cells = page_rows()[id_]
    if id_ in OF_RUNS:
        return
    if id_ in CHOICES:
        assert cells["mmrl"] == written(CHOICES[id_][1])
        return
    case = BY_ID[id_]
    assert_worth(case, {case.part: number(cells["mmrl"])})
    entries = list(_OPTIONS.finditer(cells["options"]))
    assert "; ".join(entry[0] for entry in entries) == cells["options"]
    for entry in entries:
        options = yaml.safe_load(f"{{{entry['options']}}}")
        assert_worth(case.with_options(options, reward=entry["reward"]), {case.part: number(entry["value"])})
        for tool in re.findall(r"[^,]+", entry["tools"] or ""):
            assert cells[tool.strip()] == entry["value"]


def test_the_page_has_every_case_in_which_a_tool_differs_beside_those_of_the_file():
    assert {"H4", "H6", "H7", "K1", "K3", "K12", "K16", "K17"} <= page_rows().keys()


def number(text: str) -> float:
    return VALUES[text] if text in VALUES else float(text)
