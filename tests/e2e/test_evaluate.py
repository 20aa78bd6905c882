"""`mmrl evaluate` from files to numbers, on the tiny model: every shipped benchmark, interruptions, bad files."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from makers.benchmarks import ROWS, write_benchmarks
from makers.command import mmrl
from makers.signs import write_signs
from makers.tiny_models import tiny_model_dir

from mmrl.evaluate.benchmark import load_benchmark, shipped_benchmarks
from mmrl.models.families import load_processor
from mmrl.plugins import shipped_dir


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return write_benchmarks(tmp_path_factory.mktemp("benchmarks"))


def arguments(files: Path, out: Path, *tasks: str, workers: int = 1) -> list[object]:
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", workers)
    where = ("--root", files, "--out", out, "--cache", files / "cache")
    return ["evaluate", *model, *where, "--tasks", ",".join(tasks), "--limit", ROWS, "--max-new-tokens", 6]


def results(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())


def answers(out: Path, task: str) -> dict[str, str]:
    lines = (out / task / "samples.jsonl").read_text().splitlines()
    found = {row["key"]: row["completion"] for row in map(json.loads, lines)}
    assert len(found) == len(lines), "no question has two answers"
    return found


def needs_judge(name: str) -> bool:
    """Whether no rule can take its judge's place; tests/e2e/test_evaluate_judge.py runs these."""
    judge = load_benchmark(name).section.judge
    return judge is not None and judge.without is None


def lacks_program(name: str) -> bool:
    return name == "omnidocbench_v1_5_cdm" and shutil.which("pdflatex") is None


def test_every_shipped_benchmark_runs_from_its_published_layout(files, tmp_path):
    names = [name for name in shipped_benchmarks() if not (needs_judge(name) or lacks_program(name))]
    processor = load_processor(tiny_model_dir("qwen2_5_vl"))
    said = mmrl(*arguments(files, tmp_path / "out", *names), "--no-judge")
    assert said.code == 0, said.err
    found = results(tmp_path / "out")
    assert list(found["benchmarks"]) == names
    for name, row in found["benchmarks"].items():
        assert (row["n_total"], row["n_scored"], row["n_failed"]) == (ROWS, ROWS, 0), name
        benchmark = load_benchmark(name).judged_by(None, without=True, store=tmp_path, remedies="")
        assert row["task_hash"] == benchmark.for_model(processor).answered_by(max_new_tokens=6).hash
        assert benchmark.score_name in row
        assert list(row["groups"]) == list(load_benchmark(name).section.report)
    assert found["model"]["weights"] and found["environment"]["versions"]["torch"]
    assert said.line_with("mmstar *", "0.0 to")


def test_a_second_run_asks_nothing_and_a_rescore_needs_no_model(files, tmp_path):
    out = tmp_path / "out"
    assert mmrl(*arguments(files, out, "mmstar", "screenspot_pro")).code == 0
    first, before = results(out), answers(out, "screenspot_pro")
    stored = out / "screenspot_pro" / "samples.jsonl"
    rows = [json.loads(line) for line in stored.read_text().splitlines()]
    rows[0]["completion"] = "[20, 20]"  # in the box, in the model's space
    stored.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert mmrl(*arguments(files, out, "mmstar", "screenspot_pro"), "--rescore").code == 0
    second = results(out)["benchmarks"]
    assert second["screenspot_pro"]["score"] == pytest.approx(1 / ROWS)
    assert second["mmstar"] == first["benchmarks"]["mmstar"] and answers(out, "screenspot_pro").keys() == before.keys()


def test_a_killed_run_goes_on_where_it_stopped(files, tmp_path):
    """Every question once, none missing, the same answers, whatever batch and number of workers go on with it."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert mmrl(*arguments(files, whole, "mmstar", "chartqa"), "--batch", 1).code == 0
    command = [sys.executable, "-m", "mmrl", *map(str, arguments(files, killed, "mmstar", "chartqa")), "--batch", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stored, deadline = killed / "mmstar" / "samples.jsonl", time.monotonic() + 120
    while not (stored.is_file() and stored.read_text().count("\n")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert mmrl(*arguments(files, killed, "mmstar", "chartqa", workers=2), "--batch", 4).code == 0
    for task in ("mmstar", "chartqa"):
        assert answers(killed, task) == answers(whole, task)
    assert results(killed)["benchmarks"] == results(whole)["benchmarks"]


def test_broken_files_and_media_stop_nothing_else(tmp_path):
    files = write_benchmarks(tmp_path / "files", ["screenspot_pro", "charades_sta", "mmstar"])
    (files / "MMStar" / "mmstar.parquet").write_bytes(b"no parquet")
    (files / "ScreenSpot-Pro" / "images" / "1.png").unlink()
    clip = files / "Charades_v1_480" / "0.mp4"
    clip.write_bytes(clip.read_bytes()[:900])
    out = tmp_path / "out:x:"  # rich would print a cross
    said = mmrl(*arguments(files, out, "mmstar", "screenspot_pro", "charades_sta"))
    assert said.code == 1
    assert said.line_with("mmstar: cannot run", "not a Parquet file")
    assert f"results: {out}\n" in said.err, "paths and reasons are printed as they are"
    found = results(out)["benchmarks"]
    assert "not a Parquet file" in found["mmstar"]["problem"]
    for name in ("screenspot_pro", "charades_sta"):
        assert (found[name]["n_total"], found[name]["n_failed"], found[name]["n_scored"]) == (ROWS, 1, ROWS - 1)
    rows = [json.loads(line) for line in (out / "charades_sta" / "samples.jsonl").read_text().splitlines()]
    assert [row["status"] for row in rows if row["key"] == "test:1"] == ["media_error"]
    clip.write_bytes((files / "Charades_v1_480" / "1.mp4").read_bytes())
    again = arguments(files, out, "charades_sta")
    assert mmrl(*again).code == 0, "a question that failed is counted"
    assert mmrl(*again, "--strict").code == 1, "what failed is not asked again unless told to"
    assert mmrl(*again, "--strict", "--retry-failed").code == 0
    assert results(out)["benchmarks"]["charades_sta"]["n_failed"] == 0


def test_an_answer_whose_reward_fails_is_unscored_and_the_reason_is_said(tmp_path):
    task = write_signs(tmp_path, count=2)
    (tmp_path / "letters.py").write_text("def score(completion, sample):\n    return sample.columns['weight']\n")
    said = mmrl(*arguments(tmp_path, tmp_path / "out", str(task)))
    row = results(tmp_path / "out")["benchmarks"]["signs"]
    assert (row["score"], row["n_total"], row["n_unscored"]) == (0.0, 2, 2)
    assert said.line_with("signs: 2 of 2 questions are unscored", "letters.py", "weight", "--rescore")
    (tmp_path / "letters.py").write_text("def score(completion, sample):\n    return 1.0\n")
    again = mmrl(*arguments(tmp_path, tmp_path / "out", str(task)), "--rescore")
    assert "unscored," not in again.err
    assert results(tmp_path / "out")["benchmarks"]["signs"]["score"] == 1.0


def test_what_cannot_be_scored_is_refused_before_anything_is_loaded(files, tmp_path):
    said = mmrl(*arguments(files, tmp_path / "out", "mmstarr"))
    assert said.code == 2 and said.line_with("no benchmark 'mmstarr'", "did you mean 'mmstar'?")
    without = write_benchmarks(tmp_path / "files", ["charades_sta"])
    rows = (without / "charades_sta" / "test.jsonl").read_text().replace("[0.0, 1.0]", "[]")
    (without / "charades_sta" / "test.jsonl").write_text(rows)
    said = mmrl(*arguments(without, tmp_path / "other", "charades_sta"))
    assert said.code == 1 and said.line_with("cannot run", "test.jsonl:1 (id=test:1)", "no answer", "--predict-only")
    predicted = tmp_path / "predicted"
    said = mmrl(*arguments(without, predicted, "charades_sta"), "--predict-only")
    assert said.code == 0 and said.line_with("charades_sta 3/3", "elapsed")
    row = results(predicted)["benchmarks"]["charades_sta"]
    assert (row["n_total"], row["n_failed"], row["predict_only"]) == (ROWS, 0, True) and "score" not in row
    assert len(answers(predicted, "charades_sta")) == ROWS and not (predicted / "charades_sta/scores.jsonl").exists()
    said = mmrl(*arguments(files, tmp_path / "out", "mmstar")[:-4])
    assert said.code == 1 and said.line_with("has 3 rows, the task file expects 1500")


def test_answers_of_another_model_are_not_continued(files, tmp_path):
    out = tmp_path / "out"
    assert mmrl(*arguments(files, out, "mmstar")).code == 0
    said = mmrl(*arguments(files, out, "mmstar"), "--seed", 1)
    assert said.code == 2 and said.line_with("holds answers made with another seed", "give another --out")


def test_several_answers_need_a_temperature_and_give_pass_at_k(files, tmp_path):
    said = mmrl(*arguments(files, tmp_path / "out", "mmstar"), "--repeats", 3)
    assert said.code == 2 and said.line_with("3 answers at temperature 0 would be equal")
    said = mmrl(*arguments(files, tmp_path / "out", "mmstar"), "--repeats", 3, "--temperature", 1)
    assert said.code == 0, said.err
    row = results(tmp_path / "out")["benchmarks"]["mmstar"]
    repeats = row["repeats"]
    assert (repeats["k"], list(repeats["pass_at"])) == (3, ["1", "2", "3"]) and row["n_total"] == ROWS
    assert repeats["avg"]["score"] == repeats["pass_at"]["1"]["score"] == row["score"] and repeats["majority"]
    assert said.line_with("avg@3") and said.line_with("pass@3") and said.line_with("majority@3")
    lines = (tmp_path / "out" / "mmstar" / "scores.jsonl").read_text().splitlines()
    assert [len(json.loads(line)["scores"]) for line in lines] == [3] * ROWS


def test_fewer_rows_and_media_that_vanished_leave_stored_answers_alone(tmp_path):
    files, out = write_benchmarks(tmp_path / "files", ["screenspot_pro"]), tmp_path / "out"
    assert mmrl(*arguments(files, out, "screenspot_pro")).code == 0
    stored = answers(out, "screenspot_pro")
    assert mmrl(*arguments(files, out, "screenspot_pro"), "--limit", 1, "--rescore").code == 0
    assert results(out)["benchmarks"]["screenspot_pro"]["n_total"] == 1
    (files / "ScreenSpot-Pro" / "images" / "1.png").unlink()
    assert mmrl(*arguments(files, out, "screenspot_pro"), "--rescore").code == 0
    row = results(out)["benchmarks"]["screenspot_pro"]
    assert (row["n_total"], row["n_failed"]) == (len(stored), 1)
    assert answers(out, "screenspot_pro") == stored


def test_a_task_file_without_a_budget_for_its_media_stops_itself_alone(tmp_path):
    files = write_benchmarks(tmp_path / "files", ["mmstar"])
    text = (shipped_dir("datasets") / "benchmarks" / "mmstar.yaml").read_text()
    mine = tmp_path / "mine.yaml"
    mine.write_text(text.replace("    placeholders: leading\n", "    placeholders: leading\n    modality: stars\n"))
    said = mmrl(*arguments(files, tmp_path / "out", "mmstar", str(mine)))
    assert said.code == 1 and said.line_with("mine: cannot run", "no budget class 'stars'")
    assert results(tmp_path / "out")["benchmarks"]["mmstar"]["n_scored"] == ROWS
