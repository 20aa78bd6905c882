"""The shared table of metric cases, as far as rewards compute the same thing."""

import json

import pytest
from makers.scoring import answered
from makers.shared import shared_cases

from mmrl.plugins import resolve_function

REWARDS = {"MRA": "relative_accuracy", "BOX": "box_iou", "TIOU": "temporal_iou"}
# A reversed span is worth nothing here (as in Time-R1), and of two spans none is taken.
STRICTER = {"D6": 0.0, "D10": 0.0}


def cases(family: str) -> list[dict]:
    """The rows of a family that have one expected number."""
    path = shared_cases() / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = [row for row in rows if row["family"] == family]
    return [row for row in found if row["id"] in STRICTER or not isinstance(row["expected"], str)]


@pytest.mark.parametrize("family", REWARDS)
def test_metric_cases(family):
    score = resolve_function(REWARDS[family], kind="rewards", default="score")
    rows = cases(family)
    assert len(rows) >= 6
    for row in rows:
        gold, prediction = row["input"]
        text = prediction if isinstance(prediction, str) else " ".join(map(str, prediction))
        first = row["expected"][0] if isinstance(row["expected"], list) else row["expected"]
        wanted = STRICTER.get(row["id"], first)
        assert score(text, answered(gold)) == pytest.approx(wanted, abs=1e-4), row["id"]
