"""Rows beside those of the loader's prompts: answers of earlier steps, with the log-probs they were drawn with, and
prompts that a hook makes from answers. Training takes them in, and a resume is exact.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from makers.tiny_run import write_run

from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.errors import ConfigError
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


def assert_resumes_exactly(config: RunConfig, folder: Path) -> None:
    """The finished run, cut back to its second checkpoint, comes to the same end again."""
    whole = metrics(folder)
    for checkpoint in find_checkpoints(folder / "runs" / "tiny")[2:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert metrics(folder) == whole


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
    assert_resumes_exactly(config, tmp_path)


def test_prompts_made_from_answers_are_answered_scored_and_trained_on(tmp_path: Path, seen: list[RolloutBatch]):
    options = {"spark": {"most": 2, "answers": 3, "threshold": 0.3, "pointwise": 0.5}}
    judge = [{"reward": f"{tmp_path}/reward.py:score", "name": "verdict"}]
    path = write_run(tmp_path, stages=STAGES, algorithm={"plugins": ["spark"], "plugin_options": options})
    overrides = [
        f"rewards.tasks.judge={json.dumps(judge)}",
        "checkpoint.every=2",
        "checkpoint.best=null",
        "data.val=[]",
    ]
    config = load_config(path, overrides)
    assert train(config) == 0
    made = [batch.select(torch.tensor([kind == "recycled" for kind in batch.kind])) for batch in seen]
    assert {len(batch.gid_N.unique()) * 3 for batch in made} == {len(batch) for batch in made} != {0}
    kinds = {name.rpartition("~")[2] for batch in made for name in batch.prompt_id}
    assert "reflection" in kinds and kinds <= {"pointwise", "pairwise", "reflection"}
    assert {task for batch in made for task in batch.task} == {"t", "judge"}
    assert all(row["spark/reflection"] <= 2 for row in metrics(tmp_path) if "lr" in row)
    assert_resumes_exactly(config, tmp_path)


def test_a_made_prompt_of_a_task_without_rewards_is_named(tmp_path: Path):
    path = write_run(tmp_path, stages=STAGES, algorithm={"plugins": ["spark"]})
    with pytest.raises(ConfigError, match=r"makes prompts of the task 'judge', which 'rewards.tasks' lacks; known: t"):
        train(load_config(path, ["data.val=[]"]))
