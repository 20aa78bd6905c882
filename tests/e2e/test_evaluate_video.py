"""Scores of hand-written answers to benchmarks of clips, whose scores are no plain means over rows."""

import dataclasses
import json
from pathlib import Path

import pytest
from makers.benchmarks_video import answered_row, choice_rows, easyvideo_r1_file, mlvu_file
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir

from mmrl.evaluate.benchmark import load_benchmark
from mmrl.evaluate.records import Record

parquet = pytest.importorskip("pyarrow.parquet")


def scored(tmp_path: Path, task: str, answers: list[str | None], **places: object) -> dict:
    """The numbers of a task whose rows are answered so, None: not at all; its files are in tmp_path.

    places: what all records say of the dataset's answer.
    """
    out = tmp_path / "out"
    (out / task).mkdir(parents=True)
    hash_, keys = load_benchmark(task).hash, key_names(tmp_path, task)
    pairs = [(key, answer) for key, answer in zip(keys, answers, strict=True) if answer is not None]
    records = [Record(hash_, key, 0, "ok", answer, **places) for key, answer in pairs]
    lines = [json.dumps(dataclasses.asdict(record)) for record in records]
    (out / task / "samples.jsonl").write_text("\n".join(lines) + "\n")
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1)
    where = ("--root", tmp_path, "--out", out, "--cache", tmp_path / "cache")
    said = mmrl("evaluate", *model, *where, "--tasks", task, "--limit", 100, "--rescore")
    assert said.code == 0, said.err
    return json.loads((out / "results.json").read_text())["benchmarks"][task]


def key_names(root: Path, task: str) -> list[str]:
    """Ids of the rows of a task's file: their problem_id, or where the task file maps none, their place."""
    path = root / load_benchmark(task).section.data.path
    if path.suffix == ".parquet":
        [file] = path.parent.glob(path.name)
        return [f"{path.stem}:{n + 1}" for n in range(parquet.read_metadata(file).num_rows)]
    text = path.read_text()
    rows = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    if path.suffix == ".jsonl":
        return [f"{path.stem}:{n + 1}" for n in range(len(rows))]
    return [str(row["problem_id"]) for row in rows]


def number(gold: str, kind: str) -> dict:
    return {**answered_row(gold, "regression"), "options": None, "original_question_type": kind}


def letter(kind: str) -> dict:
    [row] = choice_rows(4, original_question_type=kind)  # D is right
    return row


VSI = (
    number("10", "object_counting"),
    number("4", "object_counting"),
    letter("object_rel_direction_easy"),
    letter("object_rel_direction_medium"),
    letter("object_rel_direction_hard"),
    letter("object_rel_direction_hard"),
    letter("obj_appearance_order"),
)
VSI_ANSWERS = ["5", "4", "D", "The best answer is A.", "D. a hat", "B", "(D)"]


def test_vsibench_is_the_mean_of_its_tasks_with_the_levels_of_direction_as_one(tmp_path):
    easyvideo_r1_file("vsibench.json", "VSI-Bench", *VSI)(tmp_path)
    found = scored(tmp_path, "vsibench", VSI_ANSWERS)
    counting, direction, order = (0.1 + 1) / 2, (1 + 0 + 0.5) / 3, 1  # an error of half is within one tolerance of ten
    assert found["score"] == pytest.approx((counting + direction + order) / 3, abs=1e-9)
    assert found["groups"]["task"]["object_counting"]["score"] == pytest.approx(0.55)
    assert found["groups"]["level"]["object_rel_direction_hard"]["score"] == 0.5
    assert found["parts"] == {"score": pytest.approx((0.1 + 1 + 1 + 0 + 1 + 0 + 1) / 7)}
    also = {name: (numbers["score"], numbers["n_total"]) for name, numbers in found["also"].items()}
    assert also == {"mean_acc": (3 / 5, 5), "mean_mra": (pytest.approx(0.55), 2)}


def test_a_row_whose_clip_is_missing_counts_zero_in_its_own_task(tmp_path):
    """Fault: the row in a group of its own, which took a quarter of the score."""
    easyvideo_r1_file("vsibench.json", "VSI-Bench", *VSI)(tmp_path)
    (tmp_path / "VSI-Bench" / "videos" / "1.mp4").unlink()
    found = scored(tmp_path, "vsibench", [VSI_ANSWERS[0], None, *VSI_ANSWERS[2:]])
    assert found["score"] == pytest.approx((0.1 / 2 + 0.5 + 1) / 3, abs=1e-9)
    assert (found["n_total"], found["n_failed"]) == (7, 1)


def ovo(row: dict, category: str, task: str) -> dict:
    return {**row, "ovo_category": category, "ovo_task": task, "ovo_id": task}


def test_ovobench_is_the_mean_of_categories_of_the_means_of_their_tasks(tmp_path):
    [choice] = choice_rows(4)
    rows = [
        ovo(choice, "backward", "EPM"),
        ovo(choice, "backward", "HLD"),
        ovo(choice, "backward", "HLD"),
        ovo(choice, "realtime", "OCR"),
        ovo(answered_row("3", "REC"), "forward", "REC"),
        ovo(answered_row("3", "REC"), "forward", "REC"),
        ovo(answered_row("Yes", "SSR"), "forward", "SSR"),
        ovo(answered_row("Yes", "CRR"), "forward", "CRR"),
    ]
    easyvideo_r1_file("ovobench.json", "OVO-Bench/chunked_videos", *rows)(tmp_path)
    found = scored(tmp_path, "ovobench", ["D", "A", "B", "D", "3", "13", "Yes, it does.", "No"])
    backward, realtime, forward = (1 + 0) / 2, 1, (0.5 + 1 + 0) / 3
    assert found["score"] == pytest.approx((backward + realtime + forward) / 3, abs=1e-9)


def test_a_multi_binary_question_is_right_when_all_four_of_its_rows_are(tmp_path):
    facts = {"category": "Chart", "length": "long"}
    rows = [
        {**row, **facts, "problem_id": "ab"[n // 4], "mbinary_id": n} for n, row in enumerate(choice_rows(*[2] * 8))
    ]
    easyvideo_r1_file("videomathqa.jsonl", "VideoMathQA", *rows)(tmp_path)
    found = scored(tmp_path, "videomathqa_binary", ["B"] * 4 + ["B", "B", "A", "B"])
    assert (found["score"], found["n_total"]) == (0.5, 8)
    assert found["parts"] == {"choice": 7 / 8}


def test_a_second_without_a_box_counts_zero_and_an_answer_without_boxes_is_its_span(tmp_path):
    """K1 and K3: the right time and one right box of eleven, at the key 10.0, is 6/11."""
    boxes = {str(second): [10, 5, 40, 30] for second in range(10, 21)}
    gold = {"time": [10, 20], "boxes": boxes}
    row = answered_row(json.dumps(gold), "spatial-temporal grounding")
    easyvideo_r1_file("stvg.json", "ST-Align-Benchmark", row)(tmp_path)
    said = '{"time": [10, 20], "boxes": {"10.0": [10, 5, 40, 30]}}'
    found = scored(tmp_path, "stvg", [said], answer=gold, answer_space="model_px at seconds")
    assert found["score"] == pytest.approx(0.5 + 0.5 / 11, abs=1e-9)


def test_a_span_and_boxes_of_the_file_are_asked_and_compared_in_the_models_space(tmp_path):
    """A clip of 80 x 48 pixels is shown enlarged; the answer is that place in the enlarged frames."""
    gold = {"time": [0.0, 0.9], "boxes": {"0": [0, 0, 80, 48]}}
    easyvideo_r1_file("stvg.json", "ST-Align-Benchmark", answered_row(json.dumps(gold), "x"))(tmp_path)
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1)
    where = ("--root", tmp_path, "--out", tmp_path / "out", "--cache", tmp_path / "cache")
    assert mmrl("evaluate", *model, *where, "--tasks", "stvg", "--limit", 1, "--max-new-tokens", 2).code == 0
    [line] = (tmp_path / "out" / "stvg" / "samples.jsonl").read_text().splitlines()
    stored = json.loads(line)
    assert stored["answer_space"] == "model_px at seconds" and stored["answer"]["time"] == [0.0, 0.9]
    x1, y1, x2, y2 = stored["answer"]["boxes"]["0"]
    assert (x1, y1) == (0, 0) and x2 % 28 == y2 % 28 == 0


def test_letters_are_those_of_the_rows_options(tmp_path):
    """K16: F of six options is an answer; F of four is none."""
    easyvideo_r1_file("mlvu-test.json", "MLVU_Test", *choice_rows(6, 4, 11, 14))(tmp_path)
    found = scored(tmp_path, "mlvu_test_rows", ["F", "F", "K. ink", "The answer is N."])
    assert found["score"] == pytest.approx(3 / 4)


def test_mlvu_is_the_mean_of_its_tasks(tmp_path):
    rows = [("plotQA", "A"), ("plotQA", "B"), ("plotQA", "C"), ("plotQA", "D"), ("count", "B")]
    mlvu_file("MLVU_dev", *rows)(tmp_path)
    found = scored(tmp_path, "mlvu_dev", ["A", "(B) a ball", "D)", "The answer is A.", "B"])
    assert found["score"] == pytest.approx((2 / 4 + 1) / 2)
    assert found["also"]["rows"]["score"] == pytest.approx(3 / 5)
