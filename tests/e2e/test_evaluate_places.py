"""Exact scores of written answers to the benchmarks of places, pages, driving, robots and medicine, by `--rescore`."""

import json
import math
import shutil
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.benchmarks_pages import TABLE
from makers.rescored import rescored
from PIL import Image

PLAN = [[1.0 * step, 0.0] for step in range(1, 7)]
BESIDE = [[x, 0.2] for x, _ in PLAN]
SLOWER = [[1, 0], [2, 0], [3, 0], [3.75, 0], [4.25, 0], [4.5, 0]]
OFF_THE_ROAD = [[x, 2.0 * x] for x, _ in PLAN]
HALVES = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 80"><rect width="50" height="80" fill="red"/>'
    '<rect x="50" width="50" height="80" fill="{right}"/></svg>'
)
ANSWERS = {
    # The boxes are [10, 10, 40, 30] of 100 x 80 pixels and [0.1, 0.1, 0.4, 0.3] of the screen; the model writes pixels.
    "screenspot": ['```json\n[{"point_2d": [20, 20], "label": "close"}]\n```', "[39, 40]", "[44.8, 25.2]"],
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
    "navsim_pdms": [json.dumps(PLAN), json.dumps(SLOWER), json.dumps(OFF_THE_ROAD)],
    "robot_actions": ["[0, 0]", "[0, 5.1]", "up"],
    "sharerobot_trajectory": ["[[10, 10], [50, 10]]", "[[10, 10]]", "[[50, 10], [10, 10]]"],
    "sharerobot_affordance": ["[11.2, 10.5, 44.8, 31.5]", "[11.2, 10.5, 31.36, 31.5]", "on the handle"],
    "path_vqa": ["No, it is not.", "the left lobe", "an axial view"],
    "svg_drawing": [HALVES.format(right="blue"), HALVES.format(right="#000080"), "a red and a blue half"],
    "vqa_rad": ["Yes.", "the left side", "an axial plane"],
    "slake_en": ["no", "left lung", "x-ray"],
    "blink_jigsaw": ["(A)", "A", "the second image"],
}


if shutil.which("pdflatex") is not None:
    ANSWERS["omnidocbench_v1_5_cdm"] = ANSWERS["omnidocbench_v1_5"]


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict]:
    """Results by benchmark, where the tiny model's answers were replaced by those above."""
    files, out = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("out")
    write_benchmarks(files, list(ANSWERS))
    for picture in (files / "svg").glob("*.png"):
        write_halves(picture)
    return rescored(files, out, ANSWERS)


def write_halves(path: Path) -> None:
    """A picture whose left half is red and whose right half is blue."""
    picture = Image.new("RGB", (100, 80), "red")
    picture.paste("blue", (50, 0, 100, 80))
    picture.save(path)


def test_clicks_in_boxes_of_both_layouts(results):
    """112 x 84 pixels reach the model: (20, 20) is in the box, (39, 40) below it."""
    assert results["screenspot_v2"]["score"] == pytest.approx(1 / 3)
    assert results["screenspot_v2_shares"]["score"] == pytest.approx(1 / 3)
    assert results["screenspot_v2"]["groups"]["data_type"]["text"]["score"] == 0


def test_clicks_as_a_family_gives_them_and_on_the_edge(results):
    """The box ends at (44.8, 25.2) of the model's pixels; its edge counts."""
    row = results["screenspot"]
    assert (row["variant"], row["score"]) == ("qwen2_5_vl", pytest.approx(2 / 3))
    assert {kind: of["score"] for kind, of in row["groups"]["data_type"].items()} == {"icon": 1, "text": 0}


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


def test_formulas_that_look_the_same_are_by_cdm(results):
    """`a^2=b` for `a^{2} = b` is the same where it is rendered, and the published overall takes this in its place."""
    if "omnidocbench_v1_5_cdm" not in results:
        pytest.skip("no pdflatex on this machine")
    row = results["omnidocbench_v1_5_cdm"]
    assert row["also"]["CDM"]["score"] == 1
    assert row["also"]["formula"]["score"] == results["omnidocbench_v1_5"]["also"]["formula"]["score"]
    assert row["score"] == pytest.approx((1 + 1 + 1 - 1 / 6) / 3)


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
    assert row["also"]["success"]["score"] == 0.5, "of two episodes one has an action that cannot be read"
    row = results["sharerobot_trajectory"]
    forth, back = math.hypot(6 / 112, 0.5 / 84), math.hypot(46 / 112, 0.5 / 84)
    assert row["score"] == pytest.approx((1 - forth / 0.5 + 1 - back / 0.5) / 3, abs=1e-5)
    assert row["measures"]["drawn_path.frechet"] == {"mean": pytest.approx((forth + back) / 2, abs=1e-5), "n": 2}


def test_plans_by_navsim_s_score(results):
    """The driver's own path is 1; one that comes three quarters as far (5 * 0.75 + 5 + 2) / 12; one off the road 0."""
    assert results["navsim_pdms"]["score"] == pytest.approx((1 + 10.75 / 12) / 3, abs=1e-6)


def test_regions_by_their_overlap(results):
    """The region is [11.2, 10.5, 44.8, 31.5] of the model's pixels; three fifths of it are 0.6."""
    row = results["sharerobot_affordance"]
    assert row["score"] == pytest.approx((1 + 0.6) / 3, abs=1e-6)
    assert row["parts"] == {"iou": pytest.approx(1.6 / 3, abs=1e-6), "at_5": pytest.approx(2 / 3)}


def test_drawings_by_the_variance_that_they_explain(results):
    """Of a red and a blue half each channel's variance is a quarter; blue at 128 of 255 misses (127 / 255)^2 of one."""
    assert results["svg_drawing"]["score"] == pytest.approx((1 + 1 - (127 / 255) ** 2) / 3, abs=1e-6)


def test_closed_questions_of_pathology_are_right_or_wrong_and_open_ones_by_words(results):
    row = results["path_vqa"]
    assert row["score"] == pytest.approx((0 + 0.5 + 1) / 3)
    assert row["measures"]["medical_answer.closed"] == {"mean": 0, "n": 1}
    assert row["measures"]["medical_answer.open_recall"] == {"mean": 0.75, "n": 2}


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
