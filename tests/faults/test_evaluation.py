"""Rows 76 to 78 of the public faults, through `mmrl evaluate` and `mmrl compare`."""

import json
import math
from pathlib import Path

from makers.benchmarks import ROWS, write_benchmarks
from makers.command import mmrl
from makers.signs import write_signs
from makers.tiny_models import tiny_model_dir

COVERED = {
    76: [
        "unit/evaluate/test_runner.py::test_a_clip_whose_reader_hangs_is_a_timeout_and_is_not_opened_for_its_next_question",
        "e2e/test_evaluate.py::test_broken_files_and_media_stop_nothing_else",
        "faults/test_evaluation.py::test_clips_that_cannot_be_decoded_are_failures_that_are_counted_and_no_nan",
    ],
    77: [
        "e2e/test_evaluate_servers.py::test_two_servers_give_the_results_of_one",
        "e2e/test_benchmarks_in_training.py::test_two_processes_share_the_questions",
        "unit/evaluate/test_runner.py::test_another_number_of_answers_than_was_asked_for_is_no_answer",
        "faults/test_evaluation.py::test_an_odd_number_of_questions_on_two_engines_is_asked_once_each",
        "faults/test_evaluation.py::test_a_question_without_records_is_not_done_and_an_empty_list_is_no_record",
    ],
    78: [
        "e2e/test_compare.py::test_another_budget_or_fewer_questions_are_refused",
        "faults/test_evaluation.py::test_results_say_what_they_depend_on_and_unequal_ones_are_not_compared",
    ],
}


def evaluate(files: Path, out: Path, task: object, *more: object):
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1, "--max-new-tokens", 4)
    return mmrl("evaluate", *model, "--tasks", task, "--root", files, "--out", out, "--cache", files / "cache", *more)


def results(out: Path) -> dict:
    """results.json, which must hold no NaN: other readers of JSON refuse it."""

    def refuse(constant: str):
        raise AssertionError(constant)

    return json.loads((out / "results.json").read_text(), parse_constant=refuse)


def keys(out: Path) -> list[str]:
    return sorted(json.loads(line)["key"] for line in (out / "signs" / "samples.jsonl").read_text().splitlines())


def test_clips_that_cannot_be_decoded_are_failures_that_are_counted_and_no_nan(tmp_path):  # fault 76
    files = write_benchmarks(tmp_path / "files", ["charades_sta"])
    for clip in (files / "Charades_v1_480").iterdir():
        clip.write_bytes(clip.read_bytes()[:900])
    out = tmp_path / "out"
    said = evaluate(files, out, "charades_sta", "--limit", ROWS)
    assert said.code == 1 and said.line_with("charades_sta: all questions failed", "--retry-failed")
    found = results(out)["benchmarks"]["charades_sta"]
    counts = {name: found[name] for name in ("n_total", "n_failed", "n_scored", "n_unparsed")}
    assert counts == {"n_total": ROWS, "n_failed": ROWS, "n_scored": 0, "n_unparsed": 0}
    assert found["score"] == 0.0 and not math.isnan(found["low"] + found["high"])
    stored = [json.loads(line) for line in (out / "charades_sta" / "samples.jsonl").read_text().splitlines()]
    assert {(row["status"], row["completion"]) for row in stored} == {("media_error", "")}


def test_an_odd_number_of_questions_on_two_engines_is_asked_once_each(tmp_path):  # fault 77
    task = write_signs(tmp_path / "files", count=7)
    said = evaluate(task.parent, tmp_path / "out", task, "--dp", 2, "--batch", 2, "--strict")
    assert said.code == 0, said.err
    assert keys(tmp_path / "out") == [f"signs{n}" for n in range(7)]
    assert results(tmp_path / "out")["benchmarks"]["signs"]["n_scored"] == 7


def test_a_question_without_records_is_not_done_and_an_empty_list_is_no_record(tmp_path):  # fault 77
    task, out = write_signs(tmp_path / "files", count=5), tmp_path / "out"
    assert evaluate(task.parent, out, task).code == 0
    stored, whole = out / "signs" / "samples.jsonl", results(out)["benchmarks"]
    stored.write_text("".join(stored.read_text().splitlines(keepends=True)[:-2]))
    assert evaluate(task.parent, out, task).code == 0
    assert keys(out) == [f"signs{n}" for n in range(5)] and results(out)["benchmarks"] == whole
    lines = stored.read_text().splitlines(keepends=True)
    stored.write_text("".join([*lines[:2], "[]\n", *lines[3:]]))
    said = evaluate(task.parent, out, task)
    assert said.code == 1 and said.line_with("signs: cannot run", "samples.jsonl:3: not a record of this version")


def test_results_say_what_they_depend_on_and_unequal_ones_are_not_compared(tmp_path):  # fault 78
    task = write_signs(tmp_path / "files", count=3)
    budget = "  budgets: {image: {min_pixels: 784, max_pixels: %d}}\n  card:"
    for pixels in (3136, 12544):
        changed = task.read_text().replace("  card:", budget % pixels)
        (mine := task.with_name("mine.yaml")).write_text(changed)
        assert evaluate(task.parent, tmp_path / str(pixels), mine).code == 0
    found = results(tmp_path / "3136")
    row = found["benchmarks"]["mine"]
    assert row["budgets"]["image"]["max_pixels"] == 3136 and row["answers"]["max_new_tokens"] == 4
    assert found["engine"] == "hf" and {"torch", "transformers"} <= found["environment"]["versions"].keys()
    assert "template" in row and found["model"]["weights"]
    said = mmrl("compare", tmp_path / "3136", tmp_path / "12544")
    assert said.code == 2 and said.line_with("mine: budgets.image.max_pixels: 3136 and 12544")
    assert said.line_with("were not made alike", "--anyway")
    assert mmrl("compare", tmp_path / "3136", tmp_path / "12544", "--anyway").code == 0
