"""Curricula in a training: what they follow is saved, and a resume draws the same rows."""

import json
import shutil
from pathlib import Path

import pytest
from makers.in_processes import run_jobs
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

STAGES = [{"name": "rl", "kind": "grpo", "steps": 6, "prompts_per_step": 3, "lr": 1e-2}]
PLUGINS = {
    "difficulty_bands": {"threshold": 0.3},
    "hard_mining": {"threshold": 0.3},
    "stage_order": {"stages": [["t"]], "review": 0.2},
}


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


@pytest.mark.parametrize("name", PLUGINS)
def test_a_resume_draws_the_same_rows(tmp_path: Path, name: str):
    algorithm = {"plugins": [name], "plugin_options": {name: PLUGINS[name]}}
    path = write_run(tmp_path, stages=STAGES, algorithm=algorithm)
    config = load_config(path, ["checkpoint.every=2", "checkpoint.best=null", "data.val=[]"])
    assert train(config) == 0
    whole = metrics(tmp_path)
    steps = [row for row in whole if "lr" in row]
    if name == "difficulty_bands":
        assert all(sum(row[f"difficulty_bands/rows/{band}"] for band in range(4)) == 9 for row in steps)
        assert steps[-1]["difficulty_bands/rows/2"] < 9, "rows left the band of the unrated"
    if name == "hard_mining":
        assert steps[0]["hard_mining/rows"] <= 3 and steps[-1]["hard_mining/rows"] > 0
    for checkpoint in find_checkpoints(tmp_path / "runs" / "tiny")[2:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert metrics(tmp_path) == whole


def test_two_processes_draw_the_rows_that_one_draws(tmp_path: Path):
    """What each process saw of its prompts is put together, so both follow the same pass rates."""
    algorithm = {"plugins": ["hard_mining"], "plugin_options": {"hard_mining": PLUGINS["hard_mining"]}}
    stages = [{**STAGES[0], "prompts_per_step": 4, "lr": 1e-5}]
    sizes = {}
    for name in ("one", "two"):
        path = write_run(tmp_path / name, stages=stages, algorithm=algorithm)
        overrides = ["checkpoint.best=null", "data.val=[]"]
        if name == "one":
            assert train(load_config(path, overrides)) == 0
        else:
            run_jobs(tmp_path / name, [{"name": "t", "train": [str(path), *overrides]}], processes=2)
        steps = [row for row in metrics(tmp_path / name) if "lr" in row]
        sizes[name] = [(row["hard_mining/rows"], row["tokens"], round(row["reward/mean"], 4)) for row in steps]
    assert sizes["one"] == sizes["two"] and sizes["one"][-1][0] > 0
