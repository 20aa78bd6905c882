"""8-bit moments, averaged weights, early stop: what they promise, and that a run that stops continues exactly."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from makers.tiny_run import write_run
from safetensors.torch import load_file

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

STAGES = [{"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 2, "lr": 1e-3}]


def load(folder: Path, *overrides: str) -> tuple[RunConfig, Path]:
    path = write_run(folder, stages=STAGES)
    return load_config(path, ["checkpoint.every=1", "checkpoint.best=null", *overrides]), folder / "runs" / "tiny"


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


def weights(checkpoint: Path, name: str = "model") -> dict[str, torch.Tensor]:
    return load_file(checkpoint / name / "model.safetensors")


def assert_resumes_exactly(config: RunConfig, folder: Path, *, kept: int) -> None:
    """The finished run, without its checkpoints after the first `kept`, comes to the same end again."""
    *_, last = find_checkpoints(folder)
    whole = metrics(folder), weights(last), {p.name for p in last.iterdir()}
    averages = load_file(last / "ema.safetensors") if config.train.ema_decay else {}
    for checkpoint in find_checkpoints(folder)[kept:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert (metrics(folder), {p.name for p in last.iterdir()}) == (whole[0], whole[2])
    assert all(tensor.equal(whole[1][name]) for name, tensor in weights(last).items())
    if averages:
        assert all(tensor.equal(averages[name]) for name, tensor in load_file(last / "ema.safetensors").items())


@pytest.mark.parametrize("zero_stage", [0, 1])
def test_muon_trains_and_resumes_exactly(tmp_path: Path, zero_stage: int):
    config, folder = load(tmp_path, "train.optimizer=muon", f"train.zero_stage={zero_stage}", "data.val=[]")
    assert train(config) == 0
    first, last = find_checkpoints(folder)
    assert any(not tensor.equal(weights(last)[name]) for name, tensor in weights(first).items())
    assert_resumes_exactly(config, folder, kept=1)


def test_8_bit_moments_train_and_resume_exactly(tmp_path: Path):
    pytest.importorskip("bitsandbytes", reason="the extra mmrl[quantized] is not installed")
    config, folder = load(tmp_path, "train.optimizer=adamw8bit", "data.val=[]")
    assert train(config) == 0
    assert all(row["grad_norm"] > 0 for row in metrics(folder))
    first, last = find_checkpoints(folder)
    assert any(not tensor.equal(weights(last)[name]) for name, tensor in weights(first).items())
    state = torch.load(last / "optimizer-0.pt", weights_only=True)["state"].values()
    moments = [
        tensor for entry in state for value in entry.values() if isinstance(value, dict) for tensor in value.values()
    ]
    assert torch.uint8 in {tensor.dtype for tensor in moments if isinstance(tensor, torch.Tensor)}
    assert_resumes_exactly(config, folder, kept=1)


def test_averaged_weights_are_validated_exported_and_resumed(tmp_path: Path):
    config, folder = load(tmp_path, "train.ema_decay=0.75", "validation.every=1")
    assert train(config) == 0
    first, last = find_checkpoints(folder)
    before, after = weights(first, "model_ema"), weights(last)
    for name, average in weights(last, "model_ema").items():
        torch.testing.assert_close(average, 0.75 * before[name] + 0.25 * after[name], rtol=1e-5, atol=1e-7)
        assert not average.equal(after[name])
    assert (last / "model_ema" / "mmrl.json").is_file()
    # The run that starts from the averages is scored as the last validation was.
    changes = ["name=again", f"model.path={last / 'model_ema'}", "stages.0.steps=1", "validation.every=0"]
    assert train(load_config(folder / "resolved.yaml", changes)) == 0
    [scored, *_] = metrics(folder.parent / "again")
    [*_, ended] = [row for row in metrics(folder) if "val/mean" in row]
    assert {**scored, "step": 2} == ended
    assert_resumes_exactly(config, folder, kept=1)


def test_a_stage_ends_when_its_score_stops_rising_and_the_next_one_begins(tmp_path: Path):
    stages = [{**STAGES[0], "steps": 6, "early_stop": {"patience": 2}}, {**STAGES[0], "name": "more", "steps": 1}]
    path, folder = write_run(tmp_path, stages=stages), tmp_path / "runs" / "tiny"
    (tmp_path / "reward.py").write_text("def score(completion, sample):\n    return 0.5\n")
    config = load_config(path, ["validation.every=1", "checkpoint.every=1"])
    assert train(config) == 0
    steps = [(row["stage"], row["step"]) for row in metrics(folder) if "lr" in row]
    # Scores before the stage and after its steps: 0.5, 0.5, 0.5; the second and the third are no better.
    assert steps == [("rl", 1), ("rl", 2), ("more", 3)]
    assert_resumes_exactly(config, folder, kept=1)
