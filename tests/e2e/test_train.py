"""Whole runs of a tiny model: what training leaves behind, and that stopping and resuming changes nothing."""

import json
import shutil
from pathlib import Path

import pytest
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train


def rows(path: Path) -> list[dict]:
    """metrics.jsonl without what depends on the machine."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


def weights(run: Path) -> bytes:
    return (find_checkpoints(run)[-1] / "model" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    assert train(load_config(write_run(folder))) == 0
    return folder / "runs" / "tiny"


def test_a_run_leaves_what_the_documentation_lists(finished):
    names = {path.name for path in finished.iterdir()}
    assert {"resolved.yaml", "environment.json", "templates.json", "metrics.jsonl", "rollouts.jsonl"} <= names
    checkpoint = find_checkpoints(finished)[-1]
    assert checkpoint.name == "step-000006"
    assert json.loads((checkpoint / "model" / "mmrl.json").read_text())["budgets"]["image"]["max_pixels"] == 84 * 84
    assert {row["split"] for row in map(json.loads, (finished / "rollouts.jsonl").read_text().splitlines())} == {
        "train",
        "val",
    }


def test_metrics_hold_rewards_per_task_and_part_and_validation_at_every_stage_end(finished):
    metrics = rows(finished / "metrics.jsonl")
    assert [(row["step"], row["stage"]) for row in metrics if "lr" in row] == [
        *((step, "warmup") for step in (1, 2, 3)),
        *((step, "rl") for step in (4, 5, 6)),
    ]
    assert [row["step"] for row in metrics if "val/mean" in row] == [0, 3, 6]
    last = metrics[-2]
    assert {"reward/mean", "reward/task/t", "reward/part/t/letters", "reward/part/t/format", "grad_norm"} <= set(last)
    for part in ("letters", "format"):
        assert 0 <= last[f"reward/at_0/t/{part}"] <= 1 and 0 <= last[f"reward/at_1/t/{part}"] <= 1
        assert last[f"reward/errors/t/{part}"] == last[f"reward/timeouts/t/{part}"] == 0.0
    assert [row["lr"] for row in metrics if row["stage"] == "rl" and "lr" in row] == [1e-3, 5e-4, 0.0]


def test_the_trained_model_is_an_ordinary_model_folder_with_the_keys_of_the_base(finished):  # fault 58
    from safetensors.torch import load_file
    from transformers import AutoModelForImageTextToText, AutoProcessor

    folder = find_checkpoints(finished)[-1] / "model"
    base = Path(json.loads((folder / "mmrl.json").read_text())["base_model"])
    trained, before = load_file(folder / "model.safetensors"), load_file(base / "model.safetensors")
    assert trained.keys() == before.keys()
    assert any(not trained[name].equal(before[name]) for name in before)
    AutoModelForImageTextToText.from_pretrained(folder)
    AutoProcessor.from_pretrained(folder)


@pytest.mark.parametrize("step", [1, 3, 4])  # inside a stage, between stages, after an epoch's end (9 rows, 4 a step)
def test_resuming_gives_the_same_weights_and_metrics(tmp_path, step):  # faults 73, 74
    config = load_config(write_run(tmp_path), ["checkpoint.every=1"])
    folder = tmp_path / "runs" / "tiny"
    assert train(config) == 0
    whole = (rows(folder / "metrics.jsonl"), weights(folder), (folder / "rollouts.jsonl").read_text())
    for checkpoint in find_checkpoints(folder)[step:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert (rows(folder / "metrics.jsonl"), weights(folder), (folder / "rollouts.jsonl").read_text()) == whole
