"""Worked cases of metrics, and the way of an answer to its number: a shipped task file's rewards, spaces converted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from makers.scoring import answered

from mmrl.config.reward_sections import RewardPart
from mmrl.config.schema import RewardsSection
from mmrl.data.cards import resolve_card
from mmrl.data.rendered import MediaEntry
from mmrl.evaluate.benchmark import load_benchmark
from mmrl.scoring.geometry import to_model_space
from mmrl.scoring.router import Router

ROW = "row"
LETTERS = ("A. one", "B. two", "C. three", "D. four")
SECONDS = "seconds"


@dataclass(frozen=True)
class Case:
    """An answer and what it is worth.

    benchmark: the task file whose rewards score it; None: `reward` alone, which no shipped task file uses.
    kind: of the row, where the task file scores kinds by different rewards. wanted: the score, or the scores by part.
    options: put in place of the task file's. box_space: the model's. size: of the picture.
    """

    id: str
    benchmark: str | None
    answer: Any
    said: str
    wanted: float | Mapping[str, float]
    kind: str | None = None
    reward: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    box_space: str = "model_px"
    size: tuple[int, int] = (1000, 1000)

    @property
    def parts(self) -> tuple[RewardPart, ...]:
        if self.benchmark is None:
            assert self.reward is not None
            return (RewardPart(reward=self.reward, options=dict(self.options)),)
        score = load_benchmark(self.benchmark).section.score
        parts = score if self.kind is None else score[self.kind]
        if self.reward is not None:
            return (RewardPart(reward=self.reward, options=dict(self.options)),)
        return tuple(part.model_copy(update={"options": {**part.options, **self.options}}) for part in parts)

    @property
    def answer_space(self) -> str | None:
        return None if self.benchmark is None else answer_space(self.benchmark)

    @property
    def part(self) -> str:
        """What of its scores is compared with other tools: the IoU of boxes, else the score."""
        return "iou" if self.benchmark == "refcoco" else "score"

    def with_options(self, options: Mapping[str, Any], reward: str | None = None) -> Case:
        """`box_space` among the options is the model's; reward: in place of the task file's."""
        given = dict(options)
        return replace(
            self, box_space=given.pop("box_space", self.box_space), options=given, reward=reward or self.reward
        )


def answer_space(benchmark: str) -> str | None:
    return resolve_card(load_benchmark(benchmark).section.data.card, relative_to=Path()).answer_space


def scores_of(case: Case) -> dict[str, float]:
    """What the rewards give, by part; `score`: the whole."""
    section = RewardsSection(tasks={ROW: case.parts}, workers=0, on_error="error")
    router = Router(section)
    router.validate([ROW])
    sample = replace(answered(case.answer, task=ROW, **case.columns), answer_space=case.answer_space or SECONDS)
    kind = router.geometry_kind(ROW)
    if kind is not None:
        spaces = {"box_space": case.box_space, "time_space": SECONDS}
        sample = to_model_space(sample, _medium(case.size), kind=kind, rounded=False, **spaces)
    scores = router.score([(sample, [case.said])])
    return {**scores.breakdown_of(0, 0), "score": scores.task_scores[0][0]}


def letter_of(case: Case) -> str | None:
    """The letter that an answer to a choice is read as: the one gold letter under which it is right."""
    letters = "ABCDEFGHIJ"[: len(case.columns.get("options", "ABCD"))]
    right = [letter for letter in letters if scores_of(replace(case, answer=letter))["score"] == 1]
    assert len(right) <= 1, right
    return right[0] if right else None


def _medium(size: tuple[int, int]) -> MediaEntry:
    """A clip of 100 s that reaches the model as large as it is."""
    frames_F3HW = torch.zeros(1, dtype=torch.uint8).expand(1, 3, size[1], size[0])
    return MediaEntry("made", "video", frames_F3HW, (1, 1, 1), 1, size, duration_s=100.0, sample_fps=1.0)


# --- cases by family, from what a row of the shared file holds ----------------------------------------------------


def anls(id_: str, golds: list[str], said: str, wanted: float) -> Case:
    return Case(id_, "docvqa_val", golds, said, wanted)


def relaxed(id_: str, gold: str, said: str, wanted: float) -> Case:
    """wanted: under ChartQA's own rule, which the task file asks for."""
    return Case(id_, "chartqa", gold, said, wanted)


def box(id_: str, gold: list[float], said: Any, iou: float, **where: Any) -> Case:
    return Case(id_, "refcoco", gold, str(said), {"iou": iou, "at_5": float(iou >= 0.5)}, **where)


def span(id_: str, gold: list[float], said: str, iou: float) -> Case:
    parts = {"iou": iou, **{f"at_{n}": float(iou >= n / 10) for n in (3, 5, 7)}}
    return Case(id_, "charades_sta", gold, said, parts)


def mra(id_: str, gold: float, said: str, wanted: float) -> Case:
    return Case(id_, "vsibench", gold, said, wanted, kind="regression")


def choice(id_: str, said: str) -> Case:
    return Case(id_, "videomme", "A", said, 0.0, columns={"options": list(LETTERS)})


def click(id_: str, gold: list[float], size: tuple[int, int], said: str, wanted: float, box_space: str) -> Case:
    return Case(id_, "screenspot", gold, said, wanted, box_space=box_space, size=size)


SQUARE = "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>"
TABLES = {
    "I1": (SQUARE, SQUARE),
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


def table(id_: str, wanted: float) -> Case:
    gold, said = TABLES[id_]
    return Case(id_, "pubtabnet_val", gold, said, wanted)


def page(id_: str, texts: list[str], said: str, wanted: Mapping[str, float]) -> Case:
    """texts: of the page's blocks, in the order of reading. wanted: by measure of the reward."""
    blocks = [{"kind": "text", "text": text, "order": n} for n, text in enumerate(texts, start=1)]
    values = {f"page_blocks.{name}": value for name, value in wanted.items()}
    return Case(id_, "omnidocbench_v1_5", blocks, said, {"score": wanted["text"], **values})


# --- the worked rows ------------------------------------------------------------------------------------------------

_ELEVEN = {str(second): [10, 5, 40, 30] for second in range(10, 21)}
_TUBE = {"time": [10, 20], "boxes": _ELEVEN}
_CARS = "<c1,CAM_BACK,1096.0,500.0>"
_TRIANGLE = {"polygon": [[0, 0], [100, 0], [0, 100]]}
_SCREEN = [0.1, 0.1, 0.2, 0.2]
_TWO_SPANS = "From 8 to 12, and again 10 to 20 seconds"
_SIX = [f"{letter}. {letter.lower()}" for letter in "ABCDEF"]

CASES = (
    anls("A2", ["Paris"], "Pariss", 0.8333),
    anls("A3", ["1998"], "1999", 0.75),
    anls("A4", ["1998"], "2001", 0.0),
    anls("A5", ["New York", "NYC"], "nyc", 1.0),
    anls("A8", ["3.5%"], "3.5", 0.75),
    anls("A9", ["abcd"], "abxy", 0.5),
    anls("A10", ["abcde"], "abxyz", 0.0),
    anls("A11", ["July 4"], "", 0.0),
    anls("A12", ["ITC Limited"], "The answer is ITC Limited", 0.0),
    relaxed("B2", "100", "105", 1.0),
    relaxed("B3", "100", "105.1", 0.0),
    relaxed("B4", "0", "0", 1.0),
    relaxed("B8", "5%", "0.05", 1.0),
    relaxed("B9", "5%", "5.2%", 1.0),
    relaxed("B10", "1,200", "1200", 0.0),
    relaxed("B11", "Blue", "blue", 1.0),
    relaxed("B12", "Blue", "blue.", 0.0),
    relaxed("B15", "$12", "12", 0.0),
    box("C1", [0, 0, 100, 100], [0, 0, 100, 100], 1.0),
    box("C2", [0, 0, 100, 100], [0, 0, 100, 50], 0.5),
    box("C3", [0, 0, 100, 100], [50, 0, 150, 100], 0.3333),
    box("C4", [0, 0, 100, 100], [100, 0, 200, 100], 0.0),
    box("C6", [0, 0, 100, 100], [100, 100, 0, 0], 0.0),
    box("C8", [0, 0, 100, 100], [0, 0, 100, 49.9], 0.499),
    box("C10", [100, 100, 300, 300], '[{"bbox_2d":[50,100,150,300]}]', 1.0, box_space="0..1000", size=(2000, 1000)),
    box("C11", [100, 100, 300, 300], "[[100,100,300,300]]", 1.0, size=(2000, 1000)),
    span("D1", [24.3, 30.4], "24.3 - 30.4 seconds", 1.0),
    span("D3", [24.3, 30.4], "The event starts at 24.3s and ends at 30.4s.", 1.0),
    span("D5", [10, 20], "15 - 25", 0.3333),
    span("D6", [10, 20], "20 - 10", 1.0),
    span("D7", [10, 20], "0:10 - 0:20", 1.0),
    span("D8", [10, 20], "30 - 40", 0.0),
    span("D9", [10, 20], "10 - 10", 0.0),
    span("D10", [10, 20], _TWO_SPANS, 0.1667),
    span("D11", [0, 10], "3 - 10", 0.7),
    mra("E1", 4, "4", 1.0),
    mra("E3", 10, "5", 0.1),
    mra("E4", 10, "15", 0.1),
    mra("E6", 3, "3 chairs", 1.0),
    mra("E7", 3, "three", 1.0),
    mra("E10", 10, "-10", 0.0),
    click("G1", _SCREEN, (1000, 1000), "[0.15, 0.15]", 1.0, "0..1"),
    click("G2", _SCREEN, (1000, 1000), "[150, 150]", 1.0, "model_px"),
    click("G3", _SCREEN, (2000, 1000), "[150, 150]", 1.0, "0..1000"),
    table("I1", 1.0),
    table("I2", 0.8333),
    table("I3", 0.9583),
    table("I4", 0.5),
    table("I6", 0.6667),
    table("I7", 0.75),
    table("I9", 0.0),
    table("I10", 0.0),
    # 1 minus the normalised edit distances.
    page("H1", ["sitting"], "kitten", {"text": 1 - 3 / 7}),
    page("H2", ["abc"], "", {"text": 0.0}),
    Case("H4", None, "hello world", "Hello World", 0.8182, reward="edit_similarity"),
    page("H5", ["你好世界"], "你好", {"text": 0.5}),
    page("H6", ["a b", "c d"], "c d\n\na b", {"text": 1.0, "order": 0.0}),
    page("H7", ["one", "two"], "one two", {"text": 1.0, "order": 1.0}),
    Case("K1", "stvg", _TUBE, '{"time": [10, 20], "boxes": {"10": [10, 5, 40, 30]}}', 0.5455),
    Case("K3", "stvg", _TUBE, str({"time": [10, 20], "boxes": {f"{k}.0": v for k, v in _ELEVEN.items()}}), 1.0),
    Case("K4", None, [10, 20], "14 - 16", 1.0, reward="temporal_iou", options={"measure": "iop"}),
    Case("K6", None, [10, 20], "30 - 40", 0.0, reward="temporal_iou", options={"measure": "iop"}),
    Case("K7", None, [10, 20], "12 - 22", 0.8, reward="temporal_iou", options={"measure": "iop"}),
    Case("K8", "drivelm", _CARS, "<c1,CAM_BACK,1088.3,497.5>", 1.0, kind="match"),
    Case("K11", "drivelm", f"{_CARS} and <c2,CAM_FRONT,200.5,300.5>", _CARS, 0.6667, kind="match"),
    Case("K12", "videommmu", "360", "360.0", 1.0, kind="numerical"),
    Case("K14", "videommmu", "3.429", "3.43", 1.0, kind="numerical"),
    Case("K16", "mlvu_test_rows", "F", "F", 1.0, columns={"options": _SIX}),
    Case("K21", "ocrbench", ["ABC"], "the word is ABC.", 1.0),
    Case("K22", "ocrbench", ["x^{2}"], "x ^ { 2 }", 1.0, columns={"dataset": "HME100k"}),
    Case("K23", "osworld_g", _TRIANGLE, "[20, 20]", 1.0),
    Case("K23", "osworld_g", _TRIANGLE, "[80, 80]", 0.0),
    Case("K24", "osworld_g", {"action": "refuse"}, "[-1, -1]", 1.0),
)

# The letter that each text is read as, of the four options of LETTERS.
CHOICES = {
    "F2": ("The answer is C.", "C"),
    "F3": ("A or B", None),
    "F4": ("Answer: option d)", "D"),
    "F5": ("three", "C"),
    "F7": ("B. two\nbecause A is wrong", "B"),
    "F8": ("A cat is shown, so the answer is B", "B"),
    "F9": ("<think>A? no, C</think>\nD", "D"),
    "F10": ("The answer is a red car", None),
    "F11": ("**C**", "C"),
    "F14": ("Both B and C look right, final answer: C", "C"),
    "F15": ("\\boxed{B}", "B"),
    "F16": ("E", None),
    "F17": ("answer is D) four", "D"),
    "F18": ("It is not A", None),
}
