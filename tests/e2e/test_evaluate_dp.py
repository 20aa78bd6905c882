"""`mmrl evaluate --dp N`: engines in processes of their own answer as one does, also when some of them are killed."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from makers.command import mmrl
from makers.signs import write_signs
from makers.tiny_models import tiny_model_dir

from mmrl.evaluate.processes import PROGRAM

COUNT = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return write_signs(tmp_path_factory.mktemp("signs"), count=COUNT, tokens=16).parent


@pytest.fixture(scope="module")
def one(files, tmp_path_factory) -> Path:
    """What one engine answers."""
    out = tmp_path_factory.mktemp("one") / "out"
    assert mmrl(*arguments(files, out)).code == 0
    return out


def arguments(files: Path, out: Path, *more: object, kind: str = "qwen2_5_vl") -> list[str]:
    model = ("--model", tiny_model_dir(kind), "--dtype", "float32", "--workers", 1, "--batch", 4)
    where = ("--tasks", files / "signs.yaml", "--root", files, "--out", out, "--cache", files / "cache")
    return [str(argument) for argument in ("evaluate", *model, *where, *more)]


def started(files: Path, out: Path, *more: object, kind: str = "qwen2_5_vl") -> subprocess.Popen:
    command = [sys.executable, "-m", "mmrl", *arguments(files, out, *more, kind=kind)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def engines_of(process: subprocess.Popen) -> list[int]:
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [child for child in children if PROGRAM.encode() in Path(f"/proc/{child}/cmdline").read_bytes()]


def wait_for_answers(out: Path, count: int) -> None:
    stored, deadline = out / "signs" / "samples.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline:
        if stored.is_file() and stored.read_text().count("\n") >= count:
            return
        time.sleep(0.005)
    raise AssertionError("no answers came")


def answers(out: Path) -> dict[tuple[str, int], str]:
    lines = (out / "signs" / "samples.jsonl").read_text().splitlines()
    found = {(row["key"], row["repeat"]): row["completion"] for row in map(json.loads, lines)}
    assert len(found) == len(lines), "no answer is there twice"
    return found


def benchmarks(out: Path) -> dict:
    return json.loads((out / "results.json").read_text())["benchmarks"]


def test_two_engines_give_the_results_of_one(files, one, tmp_path):
    said = mmrl(*arguments(files, tmp_path / "two", "--dp", 2))
    assert said.code == 0, said.err
    assert answers(tmp_path / "two") == answers(one) and len(answers(one)) == COUNT
    assert benchmarks(tmp_path / "two") == benchmarks(one)


def test_drawn_answers_have_seeds_of_their_question_and_not_of_their_engine(files, tmp_path):
    drawn = ("--repeats", 2, "--temperature", 1, "--limit", 9)
    for name, count in (("one", 1), ("two", 2)):
        assert mmrl(*arguments(files, tmp_path / name, *drawn, "--dp", count)).code == 0
    assert answers(tmp_path / "two") == answers(tmp_path / "one")
    assert len(set(answers(tmp_path / "one").values())) > 9, "two answers to a question differ"


def test_the_questions_of_an_engine_that_is_killed_are_answered_by_the_others(files, one, tmp_path):
    process = started(files, tmp_path / "out", "--dp", 2, "--strict")
    wait_for_answers(tmp_path / "out", 4)
    killed = engines_of(process)[0]
    os.kill(killed, signal.SIGKILL)
    _, said = process.communicate(timeout=900)
    assert process.returncode == 0, said
    assert "ended with signal SIGKILL; its questions go to the others" in said
    assert answers(tmp_path / "out") == answers(one)


def test_a_killed_run_goes_on_with_another_number_of_engines(files, one, tmp_path):
    process = started(files, tmp_path / "out", "--dp", 3)
    wait_for_answers(tmp_path / "out", 4)
    engines = engines_of(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(engines) == 3
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{engine}").exists() for engine in engines):
        assert time.monotonic() < deadline, "engines end with the program that started them"
        time.sleep(0.05)
    there = len((tmp_path / "out" / "signs" / "samples.jsonl").read_text().splitlines())
    assert 4 <= there < COUNT
    assert mmrl(*arguments(files, tmp_path / "out", "--dp", 2)).code == 0
    assert answers(tmp_path / "out") == answers(one) and benchmarks(tmp_path / "out") == benchmarks(one)


def test_when_all_engines_end_the_command_says_so_and_goes_on_the_next_time(files, one, tmp_path):
    process = started(files, tmp_path / "out", "--dp", 2)
    wait_for_answers(tmp_path / "out", 4)
    for engine in engines_of(process):
        os.kill(engine, signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2 and "error: no engine is left: engine" in said
    assert mmrl(*arguments(files, tmp_path / "out")).code == 0
    assert answers(tmp_path / "out") == answers(one)


def test_what_an_engine_says_when_it_cannot_open_is_the_error(files, tmp_path):
    said = mmrl(*arguments(files, tmp_path / "out", "--dp", 2, "--engine", "openai", "--server", "http://x/v1"))
    assert said.code == 2 and said.line_with("--dp starts engines on this machine", "give --server once for each")
    model = tmp_path / "model"
    model.mkdir()
    for path in tiny_model_dir("qwen2_5_vl").iterdir():
        (model / path.name).write_bytes(path.read_bytes())
    (model / "model.safetensors").write_bytes(b"no weights")
    given = arguments(files, tmp_path / "other", "--dp", 2)
    given[given.index("--model") + 1] = str(model)
    said = mmrl(*given)
    assert said.code == 2 and said.line_with("error: engine 1", "safetensors"), said.err


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_two_vllm_engines_give_the_results_of_one(files, tmp_path):
    for count in "12":
        process = started(files, tmp_path / count, "--dp", count, "--engine", "vllm", kind="qwen3_vl")
        _, said = process.communicate(timeout=900)
        assert process.returncode == 0, said
    assert answers(tmp_path / "2") == answers(tmp_path / "1") and len(answers(tmp_path / "1")) == COUNT
