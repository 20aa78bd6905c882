"""Preference stages: first losses, exact resume, adapters, families without a shared prompt, two processes."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from makers.in_processes import run_jobs
from makers.tiny_run import write_run
from safetensors.torch import load_file

from mmrl.config.load import load_config
from mmrl.data.check import check
from mmrl.errors import ConfigError
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

STAGE = {"name": "prefer", "kind": "dpo", "steps": 3, "prompts_per_step": 4, "lr": 1e-3}
COMMON = ("data.val=[]", "checkpoint.every=1", "checkpoint.best=null", "train.eps=1e-2")


def write(folder: Path, *, stages: list[dict] | None = None, **dpo: object) -> Path:
    """A run whose rows, pictures, clips and texts, have two replies of different lengths."""
    path = write_run(folder, stages=stages or [{**STAGE, "dpo": dpo}])
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
    for n, row in enumerate(rows):
        row |= {"chosen": f"{n} yes", "rejected": "no" * (1 + n % 3)}
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def metrics(run: Path) -> list[dict]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


def assert_same(folder: Path) -> None:
    """But for the padding that was saved, which is a matter of rows."""
    one, two = metrics(folder / "one"), metrics(folder / "two")
    for row, expected in zip(two, one, strict=True):
        assert row.pop("stage") == expected.pop("stage")
        assert row.pop("rows/padding_saved") >= 0 and expected.pop("rows/padding_saved") >= 0
        assert row == pytest.approx(expected, rel=1e-3, abs=1e-5)


def weights(run: Path) -> dict[str, torch.Tensor]:
    [file] = (find_checkpoints(run)[-1] / "model").glob("*model.safetensors")
    return load_file(file)


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
def test_margins_grow_from_zero_and_a_resumed_run_is_the_whole_one(tmp_path, lora):
    more = ["model.lora={rank: 4}"] if lora else []
    config = load_config(write(tmp_path), [*COMMON, *more, "stages.0.lr=5e-3"])
    run = tmp_path / "runs" / "tiny"
    assert train(config) == 0
    rows, last = metrics(run), weights(run)
    assert rows[0]["loss/pairs"] == pytest.approx(math.log(2), abs=1e-6)
    assert rows[0]["dpo/margin"] == pytest.approx(0, abs=1e-5)
    assert rows[0]["loss/total"] == rows[0]["loss/pairs"]
    assert rows[2]["dpo/margin"] > 0.01
    assert rows[2]["dpo/accuracy"] > 0.5
    for checkpoint in find_checkpoints(run)[1:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert metrics(run) == rows
    assert all(tensor.equal(last[name]) for name, tensor in weights(run).items())


@pytest.mark.parametrize("more", ["train.shared_prefix=false", "train.micro_batch_tokens=1"])
def test_pairs_in_separate_rows_train_as_pairs_in_one(tmp_path, more):
    path = write(tmp_path, loss="ipo", sft_weight=0.2)
    assert train(load_config(path, [*COMMON, "name=one"])) == 0
    assert train(load_config(path, [*COMMON, "name=two", more])) == 0
    assert_same(tmp_path / "runs")


def test_without_a_reference_there_is_none_on_disk_and_margins_are_those_of_the_policy(tmp_path):
    assert train(load_config(write(tmp_path, reference_free=True), COMMON)) == 0
    run = tmp_path / "runs" / "tiny"
    assert not (run / "reference").exists()
    first = metrics(run)[0]
    assert first["dpo/chosen"] < -5  # a random model's log-probs
    assert first["dpo/margin"] == pytest.approx(first["dpo/chosen"] - first["dpo/rejected"], abs=1e-4)


def test_the_reference_is_the_policy_as_the_stage_began(tmp_path):
    sft = {"name": "first", "kind": "sft", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}
    assert train(load_config(write(tmp_path, stages=[sft, STAGE]), COMMON)) == 0
    row = next(row for row in metrics(tmp_path / "runs" / "tiny") if row["stage"] == "prefer")
    assert row["dpo/margin"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("zero_stage", [2, 3])
def test_two_processes_train_as_one(tmp_path, zero_stage):
    path = write(tmp_path, sft_weight=0.5)
    arguments = [str(path), *COMMON, "name=two", f"train.zero_stage={zero_stage}"]
    assert train(load_config(path, [*COMMON, "name=one"])) == 0
    assert run_jobs(tmp_path, [{"name": "two", "train": arguments}], processes=2)["two"] == 0
    assert_same(tmp_path / "runs")


def test_what_cannot_be_is_refused_at_the_start(tmp_path, capsys):
    path = write(tmp_path)
    assert check(load_config(path, COMMON), media="none") == 0
    with pytest.raises(ConfigError, match=r"config.yaml.*'stages.0.dpo' is set but 'stages.0.kind' is 'sft'"):
        load_config(path, [*COMMON, "stages.0.kind=sft", "stages.0.dpo.beta=0.3"])
    with pytest.raises(ConfigError, match=r"dropout' is 0.1 but a dpo stage compares"):
        load_config(path, [*COMMON, "model.lora={dropout: 0.1}"])
    rows = (tmp_path / "train.jsonl").read_text().replace('"rejected"', '"worse"')
    (tmp_path / "train.jsonl").write_text(rows)
    with pytest.raises(ConfigError, match=r"train.jsonl:1 .*needs a column 'rejected'"):
        train(load_config(path, COMMON))
    assert check(load_config(path, COMMON), media="none") == 2
    assert "needs a column 'rejected'" in capsys.readouterr().out
    assert not (tmp_path / "runs" / "tiny" / "checkpoints").exists()
