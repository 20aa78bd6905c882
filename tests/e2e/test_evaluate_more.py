"""Exact scores of written answers to the benchmarks that are read from their own files, by `--rescore`."""

import json
import shutil
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.benchmarks_more import MVBENCH, WRITERS, mvbench_files
from makers.command import mmrl
from makers.recipe_rows import prepared
from makers.rescored import rescored
from makers.tiny_models import tiny_model_dir

SPAN = "[[0.1, 0.4], [0.6, 0.8]]"
ANSWERS = {
    "videomme_hf": ["A", "B. a ball", "D"],
    "videomme_hf_subtitles": ["A", "A", "C"],
    "videomme_v2": ["H", "The answer is A.", "D. thing 3"],
    "mvbench_tasks": ["(B)", "A", "a ball"],
    "chartqa_pro": ["2011", "104", "true"],
    "countqa": ["7", "There are 12.", "4"],
    "nextgqa": [
        "<answer>C</answer> <glue>[(0.6, 0.9)]</glue>",
        "<answer>C</answer> <glue>[(0.4, 0.6)]</glue>",
        "<answer>A</answer> <glue>[(0.1, 0.4)]</glue>",
    ],
    "tempcompass_caption_matching": ["A", "Caption A: It falls.", "it falls."],
    "perceptiontest_val": ["A", "C", "C. snow"],
    "slake_zh": ["是", "右肺", "肝脏"],
    "evochart": ["12.5", "13", "12%"],
    "aerialvg": ["[11, 10, 45, 32]", "[80, 60, 90, 70]", "no"],
    "activitynet_timelens": ["The event happens in 0.1 - 0.9 seconds.", "0.1 to 0.5", "at the end"],
    "charades_timelens": ["0.9 - 0.1", "", "0:00 - 0:00"],
    "qvhighlights_timelens": ["0.1 - 0.9", "0.1 - 0.9", "0.1 - 0.9"],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict]:
    """Results by benchmark, where the tiny model's answers were replaced by those above."""
    assert ANSWERS.keys() == WRITERS.keys()
    files, out = tmp_path_factory.mktemp("files"), tmp_path_factory.mktemp("out")
    write_benchmarks(files, sorted(ANSWERS))
    return rescored(files, out, ANSWERS)


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("videomme_hf", 2 / 3),
        ("videomme_hf_subtitles", 2 / 3),
        ("videomme_v2", 2 / 3),
        ("countqa", 2 / 3),
        ("tempcompass_caption_matching", 2 / 3),
        ("perceptiontest_val", 2 / 3),
        ("slake_zh", 2 / 3),
        ("evochart", 1 / 3),
        ("activitynet_timelens", 1.5 / 3),
        ("charades_timelens", 1 / 3),
        ("qvhighlights_timelens", 1),
    ],
)
def test_answers_are_worth_what_they_are(results, name, score):
    assert results[name]["score"] == pytest.approx(score), results[name]


def test_four_questions_of_a_clip_are_right_together_or_not(results):
    assert results["videomme_v2"]["also"]["all four"]["score"] == 0


def test_the_score_of_mvbench_is_the_mean_over_its_tasks(results):
    """A clip that was cut by the file's times, a folder of frames and a whole clip; the second letter is wrong."""
    assert results["mvbench_tasks"]["score"] == pytest.approx(2 / 3)
    assert list(results["mvbench_tasks"]["groups"]["sub_task"]) == sorted(MVBENCH)


def test_years_conversations_and_facts_of_charts(results):
    """A year must be equal, the last number of a conversation may be 5 % off, a fact must be equal without case."""
    assert results["chartqa_pro"]["score"] == pytest.approx(2 / 3)
    kinds = {kind: numbers["score"] for kind, numbers in results["chartqa_pro"]["groups"]["kind"].items()}
    assert kinds == {"Conversational": 1, "Fact Checking": 1, "Factoid": 0}


def test_an_answer_counts_where_it_is_shown(results):
    """Two letters are right, one with 0.2 of 0.3 seconds inside the second span; the wrong one has the first span."""
    row = results["nextgqa"]
    assert row["score"] == pytest.approx(1 / 3)
    means = {name.removeprefix("grounded_choice."): measure["mean"] for name, measure in row["measures"].items()}
    assert means["accuracy"] == pytest.approx(2 / 3)
    assert means["iop"] == pytest.approx((2 / 3 + 0 + 1) / 3) and means["iou"] == pytest.approx((2 / 3 + 0 + 1) / 3)


def test_boxes_from_the_air(results):
    """112 x 84 pixels reach the model: the first box is the region there, the second elsewhere."""
    row = results["aerialvg"]
    assert row["score"] == pytest.approx(1 / 3) and row["parts"]["iou"] > 0.3


def test_a_clip_without_subtitles_is_a_question_that_failed(tmp_path):
    """Fault: a wrong folder of subtitles, and the score of an evaluation without any."""
    files, out = write_benchmarks(tmp_path / "files", ["videomme_hf_subtitles"]), tmp_path / "out"
    (files / "Video-MME" / "subtitle" / "clip1.srt").unlink()
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1)
    where = ("--root", files, "--out", out, "--cache", files / "cache", "--tasks", "videomme_hf_subtitles")
    assert mmrl("evaluate", *model, *where, "--limit", ROWS, "--max-new-tokens", 2).code == 0
    row = json.loads((out / "results.json").read_text())["benchmarks"]["videomme_hf_subtitles"]
    assert (row["n_total"], row["n_failed"]) == (ROWS, 1)
    [failed] = [
        line for line in (out / "videomme_hf_subtitles/samples.jsonl").read_text().splitlines() if "srt" in line
    ]
    assert json.loads(failed)["key"] == "001-1"


def test_clips_of_mvbench_are_cut_unless_they_were(tmp_path):
    folder = mvbench_files(tmp_path, tasks=MVBENCH)

    def clips() -> dict[str, dict]:
        out = prepared("mvbench", folder / "json", tmp_path / "rows.jsonl", videos=folder / "video")
        return {row["sub_task"]: row["clip"] for row in map(json.loads, out.read_text().splitlines())}

    found, video = clips(), folder / "video"
    whole = video / "star" / "Charades_v1_480"
    assert found["action_sequence"] == {
        "video": str(whole / "action_sequence.mp4"),
        "video_start": 0.5,
        "video_end": 2.5,
    }
    frames = {"frames": str(video / "tvqa/frames_fps3_hq/show/01"), "source_fps": 3}
    assert found["episodic_reasoning"] == {**frames, "video_start": 0.5, "video_end": 2.5}
    assert found["object_shuffle"] == {"video": str(video / "perception/videos/object_shuffle.mp4")}
    shutil.move(whole, video / "star" / "Charades_segment")
    assert clips()["action_sequence"] == {"video": str(video / "star/Charades_segment/action_sequence.mp4")}
    shutil.rmtree(video / "star")
    assert Path(clips()["action_sequence"]["video"]) == whole / "action_sequence.mp4", "a row that fails, not one less"
