"""Exact scores of written answers to the benchmarks of places, pages, driving, robots and medicine, by `--rescore`."""

import json
import math
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.benchmarks_pages import TABLE
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir

PLAN = [[1.0 * step, 0.0] for step in range(1, 7)]
BESIDE = [[x, 0.2] for x, _ in PLAN]
ANSWERS = {
    # The boxes are [10, 10, 40, 30] of 100 x 80 pixels and [0.1, 0.1, 0.4, 0.3] of the screen; the model writes pixels.
    "screenspot_v2": ["[20, 20]", "[39, 40]", "somewhere"],
    "screenspot_v2_shares": ["[20, 20]", "[39, 40]", "[5, 5]"],
    "osworld_g": ["[20, 20]", "[80, 60]", "[-1, -1]"],
    "ocrbench": ["it says x^{2}.", "x ^ { 2 }", "x ^ { 2 }"],
    "olmocr_bench": ["text 0", "text 0", "text 0 and text 1"],
    "omnidocbench_v1_5": [
        "that a column cuts.\n\n# Head",
        f"It holds:\n\n\\[ a^2=b \\]\n\n{TABLE.replace('d<', 'x<')}",
        "A tree.",
    ],
    "drivelm": ["B", "<c1,CAM_BACK,1088.3,490.5>", "A"],
    "nuscenes_open_loop": [json.dumps(PLAN), json.dumps(BESIDE), "straight on"],
    "robot_actions": ["[0, 0]", "[0, 5.1]", "up"],
    "sharerobot_trajectory": ["[[10, 10], [50, 10]]", "[[10, 10]]", "[[50, 10], [10, 10]]"],
    "vqa_rad": ["Yes.", "the left side", "an axial plane"],
    "slake_en": ["no", "left lung", "x-ray"],
    "blink_jigsaw": ["(A)", "A", "the second image"],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict]:
    """Results by benchmark, where the tiny model's answers were replaced by those above."""
    files, out = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("out")
    write_benchmarks(files, list(ANSWERS))
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1)
    where = ("--root", files, "--out", out, "--cache", files / "cache", "--tasks", ",".join(ANSWERS))
    command = ["evaluate", *model, *where, "--limit", ROWS, "--max-new-tokens", 2]
    said = mmrl(*command)
    assert said.code == 0, said.err
    for name, answers in ANSWERS.items():
        replace_answers(out / name / "samples.jsonl", answers)
    said = mmrl(*command, "--rescore")
    assert said.code == 0, said.err
    return json.loads((out / "results.json").read_text())["benchmarks"]


def replace_answers(path: Path, answers: list[str]) -> None:
    """Rows of the file in the order of the questions, each with its answer."""
    rows = sorted(map(json.loads, path.read_text().splitlines()), key=lambda row: row["key"])
    rows = [row | {"completion": text, "status": "ok"} for row, text in zip(rows, answers, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_clicks_in_boxes_of_both_layouts(results):
    """112 x 84 pixels reach the model: (20, 20) is in the box, (39, 40) below it."""
    assert results["screenspot_v2"]["score"] == pytest.approx(1 / 3)
    assert results["screenspot_v2_shares"]["score"] == pytest.approx(1 / 3)
    assert results["screenspot_v2"]["groups"]["data_type"]["text"]["score"] == 0


def test_boxes_polygons_and_refusals(results):
    scores = {kind: numbers["score"] for kind, numbers in results["osworld_g"]["groups"]["kind"].items()}
    assert scores == {"bbox": 1, "polygon": 0, "refusal": 1}


def test_blanks_count_but_in_formulas(results):
    assert results["ocrbench"]["score"] == pytest.approx(2 / 3)


def test_tests_of_pages_are_pooled_by_their_file(results):
    """multi_column: 1 + 1 + 2 of 1 + 2 + 3 tests; baseline: 3 of 3."""
    assert results["olmocr_bench"]["score"] == pytest.approx((4 / 6 + 1) / 2)


def test_pages_count_for_what_they_have(results):
    """Two pages have text, both whole, one with its two blocks swapped. On the second are a formula with 2 of 7
    characters wrong and a table with one cell of four wrong. The third has no block that counts.
    """
    row = results["omnidocbench_v1_5"]
    also = {name: numbers["score"] for name, numbers in row["also"].items()}
    formula, table = 1 - 2 / 7, 1 - 1 / 6
    assert (also["text"], also["order"], also["table TEDS-S"]) == (1, 0.5, 1)
    assert (also["formula"], also["table TEDS"]) == (pytest.approx(formula), pytest.approx(table))
    assert row["score"] == pytest.approx((1 + formula + table) / 3)
    assert row["groups"]["language"]["english"]["score"] == row["score"] and row["n_total"] == ROWS


def test_accuracy_and_objects_of_driving_scenes(results):
    """One answer of two is exact; one of two objects is named: 2 / 3."""
    assert results["drivelm"]["groups"]["kind"]["accuracy"]["score"] == 0.5
    assert results["drivelm"]["groups"]["kind"]["match"]["score"] == pytest.approx(2 / 3)
    assert results["drivelm"]["score"] == pytest.approx((0.5 + 2 / 3) / 2)


def test_displacements_are_of_the_plans_that_can_be_read(results):
    row = results["nuscenes_open_loop"]
    assert row["score"] == pytest.approx((1 + 0.818731) / 3, abs=1e-6)
    for name in ("l2_at_1s", "l2_at_3s", "l2_until_3s"):
        assert row["measures"][f"waypoints.{name}"] == {"mean": pytest.approx(0.1), "n": 2}


def test_actions_and_paths_of_robots(results):
    """Actions are [0, 0], [0, 5], [1, 0]: L1 0 and 0.05. The path goes from (11.2, 10.5) to (56, 10.5) of the model's
    112 x 84 pixels, the drawn ones from (10, 10) to (50, 10) and back.
    """
    row = results["robot_actions"]
    assert row["measures"]["action_distance.distance"] == {"mean": pytest.approx(0.025), "n": 2}
    assert row["score"] == pytest.approx((1 + 0.606531) / 3, abs=1e-6)
    row = results["sharerobot_trajectory"]
    forth, back = math.hypot(6 / 112, 0.5 / 84), math.hypot(46 / 112, 0.5 / 84)
    assert row["score"] == pytest.approx((1 - forth / 0.5 + 1 - back / 0.5) / 3, abs=1e-5)
    assert row["measures"]["drawn_path.frechet"] == {"mean": pytest.approx((forth + back) / 2, abs=1e-5), "n": 2}


def test_closed_and_open_questions(results):
    row = results["vqa_rad"]
    assert row["score"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert row["measures"]["medical_answer.closed"] == {"mean": 1, "n": 1}
    assert row["measures"]["medical_answer.open_recall"] == {"mean": 0.75, "n": 2}
    scores = {kind: numbers["score"] for kind, numbers in results["slake_en"]["groups"]["answer_type"].items()}
    assert scores == {"CLOSED": 0.5, "OPEN": 1}


def test_pieces_of_a_picture(results):
    """The answers are A, B, A."""
    assert results["blink_jigsaw"]["score"] == pytest.approx(2 / 3)
