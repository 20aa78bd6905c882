"""Spans that a reward returns reach the plug-ins in training, through scoring, rounds, updates and micro-batches."""

import json
from pathlib import Path

import pytest
import torch
from makers import column_rewards
from makers.tiny_run import write_run

from mmrl.algorithms.algorithm import Algorithm
from mmrl.algorithms.parts import on_tokens_of
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.load import load_config
from mmrl.training.run import train


def test_blocks_of_a_reward_are_trained_on_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stage = {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}
    algorithm = {
        "plugins": ["blockwise"],
        "plugin_options": {"blockwise": {"blocks": "words.word"}},
        "aggregation": "seq-mean-token-mean",
        "updates_per_batch": 2,
    }
    path = write_run(tmp_path, stages=[stage], algorithm=algorithm)
    words = {"reward": f"{column_rewards.__file__}:score", "name": "words", "weight": 0}
    parts = [{"reward": f"{tmp_path}/reward.py:score", "name": "letters"}, words]
    found: list[tuple[RolloutBatch, torch.Tensor]] = []
    advantage = Algorithm.advantage

    def watched(self: Algorithm, rewards_N: torch.Tensor, batch: RolloutBatch) -> torch.Tensor:
        advantage_NC = advantage(self, rewards_N, batch)
        found.append((batch, advantage_NC))
        return advantage_NC

    monkeypatch.setattr(Algorithm, "advantage", watched)
    overrides = [f"rewards.tasks.t={json.dumps(parts)}", "data.val=[]", "train.micro_batch_tokens=200"]
    assert train(load_config(path, overrides)) == 0
    assert len(found) == 2
    for batch, advantage_NC in found:
        value_NC, span_NC = on_tokens_of(batch, "words.word", option="x")
        lengths_NC = value_NC.nan_to_num(nan=0.0)
        assert (lengths_NC[span_NC >= 0] >= 1).all() and (span_NC >= 0).any()
        assert (advantage_NC[span_NC < 0] == 0).all()
    assert any((advantage_NC != 0).any() for _, advantage_NC in found)
    rows = [json.loads(line) for line in (tmp_path / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()]
    assert all(row["grad_norm"] >= 0 for row in rows if "lr" in row)
