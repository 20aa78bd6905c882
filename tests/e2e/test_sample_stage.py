"""Stages that write rows, and those that train on them: rounds, pairs, judges; resumed, and in two processes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from makers.in_processes import run_jobs
from makers.tiny_run import write_run
from safetensors.torch import load_file

from mmrl.config.load import load_config
from mmrl.data.check import check
from mmrl.errors import ConfigError, DataError
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

COMMON = ("data.val=[]", "checkpoint.every=1", "checkpoint.best=null", "train.eps=1e-2")
SAMPLE = {"kind": "sample", "steps": 2, "prompts_per_step": 4}
KEEP = {"rows": "correct", "options": {"threshold": 0.05, "most": 2}, "n": 4}
ROUNDS = [
    {"name": "sample1", **SAMPLE, "sample": KEEP},
    {"name": "sft1", "kind": "sft", "steps": 2, "prompts_per_step": 4, "lr": 1e-3, "rows_from": "sample1"},
    {"name": "sample2", **SAMPLE, "sample": KEEP},
    {"name": "sft2", "kind": "sft", "steps": 1, "prompts_per_step": 4, "lr": 1e-3, "rows_from": "sample2"},
]
# Whole completions are rare in a model of random weights: the reward takes cut ones for a test of the stages alone.
MAKERS = """
from dataclasses import replace

from mmrl.data import rollout_roles, rollout_rows


def rows(group, chance, *, kind, **options):
    makers = rollout_roles.ROW_MAKERS
    whole = replace(group, cut=(False,) * len(group.cut))
    return makers[kind](whole, chance, **options)
"""


def write(folder: Path, stages: list[dict], **sections: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "makers.py").write_text(MAKERS)
    made = [dict(stage) for stage in stages]
    for stage in made:
        if stage["kind"] == "sample":
            sample = stage["sample"]
            options = {**sample.get("options", {}), "kind": sample["rows"]}
            stage["sample"] = {**sample, "rows": "./makers.py:rows", "options": options}
    return write_run(folder, stages=made, **sections)


def metrics(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


def rows(run: Path, stage: str) -> list[dict]:
    return [json.loads(line) for line in (run / "rows" / f"{stage}.jsonl").read_text().splitlines()]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(find_checkpoints(run)[-1] / "model" / "model.safetensors")


@pytest.mark.parametrize("kept", [1, 2, 3, 5])
def test_rounds_of_rejection_sampling_resume_anywhere(tmp_path, kept):
    config, run = load_config(write(tmp_path, ROUNDS), COMMON), tmp_path / "runs" / "tiny"
    assert train(config) == 0
    whole = metrics(run), rows(run, "sample1"), rows(run, "sample2"), weights(run)
    assert [row["stage"] for row in whole[0]] == ["sample1"] * 2 + ["sft1"] * 2 + ["sample2"] * 2 + ["sft2"]
    assert len(whole[1]) == sum(row["sample/rows"] for row in whole[0][:2]) > 0
    assert all(row["columns"]["demonstration"] for row in whole[1])
    # The first stage trains nothing, the second does; the same prompts are answered anew by what was learnt.
    first, second, third, *_ = (load_file(c / "model" / "model.safetensors") for c in find_checkpoints(run))
    assert all(tensor.equal(second[name]) for name, tensor in first.items())
    assert any(not tensor.equal(third[name]) for name, tensor in second.items())
    for checkpoint in find_checkpoints(run)[kept:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert (metrics(run), rows(run, "sample1"), rows(run, "sample2")) == whole[:3]
    assert all(tensor.equal(whole[3][name]) for name, tensor in weights(run).items())


def test_two_processes_write_the_rows_of_one(tmp_path):
    path = write(tmp_path, ROUNDS[:2])
    assert train(load_config(path, [*COMMON, "name=one"])) == 0
    assert run_jobs(tmp_path, [{"name": "two", "train": [str(path), *COMMON, "name=two"]}], processes=2)["two"] == 0
    one, two = tmp_path / "runs" / "one", tmp_path / "runs" / "two"
    assert rows(two, "sample1") == rows(one, "sample1")
    for row, expected in zip(metrics(two), metrics(one), strict=True):
        assert row.pop("stage") == expected.pop("stage")
        assert row == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_pairs_of_the_policy_itself_are_preferred(tmp_path):
    stages = [
        {"name": "pairs", **SAMPLE, "sample": {"rows": "reward_pairs", "options": {"least_gap": 0.01}, "n": 6}},
        {"name": "prefer", "kind": "dpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3, "rows_from": "pairs"},
    ]
    assert train(load_config(write(tmp_path, stages), COMMON)) == 0
    steps = metrics(tmp_path / "runs" / "tiny")
    assert steps[2]["loss/pairs"] == pytest.approx(0.6931, abs=1e-4)


def test_a_judge_is_trained_on_the_answers_of_the_policy(tmp_path):
    stages = [
        {"name": "answer", **SAMPLE, "sample": {"rows": "judge", "options": {"threshold": 0.3}, "n": 6}},
        {"name": "judge", "kind": "grpo", "steps": 2, "prompts_per_step": 2, "lr": 1e-3, "rows_from": "answer"},
    ]
    letters = [{"reward": "./reward.py:score", "name": "letters"}]
    path = write(tmp_path, stages, rewards={"workers": 0, "tasks": {"t": letters, "judge": letters}})
    assert check(load_config(path, COMMON)) == 0
    assert train(load_config(path, COMMON)) == 0
    run = tmp_path / "runs" / "tiny"
    assert {row["answer"] for row in rows(run, "answer")} == {"A", "B"}
    assert "reward/task/judge" in metrics(run)[-1]


def test_what_cannot_be_is_refused(tmp_path):
    path = write(tmp_path, ROUNDS[:2])
    with pytest.raises(ConfigError, match=r"'stages.1.rows_from' is 'sampel1', which is no earlier .* 'sample1'"):
        load_config(path, [*COMMON, "stages.1.rows_from=sampel1"])
    with pytest.raises(ConfigError, match=r"'stages.0.rows_from' is 'sample1', which is no earlier stage"):
        load_config(path, [*COMMON, "stages.0.rows_from=sample1"])
    with pytest.raises(ConfigError, match=r"'stages.1.rows_from' and 'stages.1.data' are both set"):
        load_config(path, [*COMMON, f"stages.1.data={{train: [{{path: {tmp_path / 'train.jsonl'}}}]}}"])
    with pytest.raises(ConfigError, match=r"stages.0.sample.options.*unknown option 'trheshold'"):
        train(load_config(path, [*COMMON, "stages.0.sample={rows: correct, options: {trheshold: 1}}"]))
    judged = ["stages.1.kind=grpo", "stages.0.sample={rows: judge}"]
    with pytest.raises(ConfigError, match=r"'sample1' makes rows of the task 'judge' for stage 'sft1', which 'rewards"):
        train(load_config(path, [*COMMON, *judged]))
    with pytest.raises(DataError, match=r"rows/sample1.jsonl: stage 'sample1' kept no rows"):
        train(load_config(path, [*COMMON, "stages.0.sample.options={kind: correct, threshold: 5.0}"]))
