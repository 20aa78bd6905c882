"""Answers of earlier steps in training: they keep the log-probs they were drawn with, and survive a resume."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from makers.tiny_run import write_run

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.load import load_config
from mmrl.training import grpo
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

# 9 rows, 3 a step: from the fourth step on every prompt was met before.
STAGES = [{"name": "rl", "kind": "grpo", "steps": 6, "prompts_per_step": 3, "lr": 1e-2}]
PLUGINS: dict[str, dict[str, Any]] = {
    "exgrpo": {"start": 0.0, "threshold": 0.3},
    "dph_rl": {"threshold": 0.0, "coef": 1.0},
}


@pytest.fixture
def seen(monkeypatch) -> list[RolloutBatch]:
    """The batches that the optimizer steps were on."""
    batches: list[RolloutBatch] = []
    update = grpo.GrpoStage._update

    def watched(self: grpo.GrpoStage, batch: RolloutBatch, *others: Any) -> Any:
        batches.append(batch)
        return update(self, batch, *others)

    monkeypatch.setattr(grpo.GrpoStage, "_update", watched)
    return batches


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


@pytest.mark.parametrize("name", PLUGINS)
def test_recorded_answers_are_trained_on_and_a_resume_is_exact(tmp_path: Path, seen: list[RolloutBatch], name: str):
    algorithm = {"plugins": [name], "plugin_options": {name: PLUGINS[name]}}
    path = write_run(tmp_path, stages=STAGES, algorithm=algorithm)
    config = load_config(path, ["checkpoint.every=2", "checkpoint.best=null", "data.val=[]"])
    assert train(config) == 0
    replayed = [batch.select(torch.tensor([kind == "replay" for kind in batch.kind])) for batch in seen if batch.kind]
    rows = [batch for batch in replayed if len(batch)]
    assert rows and seen[0].kind == ()
    if name == "exgrpo":
        assert all(torch.equal(batch.old_NC, batch.rollout_NC) for batch in rows)
    else:
        assert max(row.get("policy/dph_rl", 0.0) for row in metrics(tmp_path)) > 0
    whole = metrics(tmp_path)
    for checkpoint in find_checkpoints(tmp_path / "runs" / "tiny")[2:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert metrics(tmp_path) == whole
