"""Recorded answers in a training: scored with their group, trained on, left out where they cannot be completions."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from makers.rows import text_rows, write_jsonl
from makers.tiny_run import write_run

from mmrl.algorithms.plugins.offline_mix import OFFLINE
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.config.load import load_config
from mmrl.errors import DataError
from mmrl.models.families import load_processor
from mmrl.training import grpo
from mmrl.training.run import train

STAGES = [{"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 3, "lr": 1e-3}]


def run(folder: Path, recorded: list[Any], *, logprobs: Sequence[Any] = (), **options: Any) -> list[RolloutBatch]:
    """Two steps over a row per recorded answer; the batches of the optimizer steps."""
    path = write_run(folder, stages=STAGES, algorithm={"plugins": ["offline_mix"]})
    rows = text_rows(len(recorded), task="t")
    for number, (row, answer) in enumerate(zip(rows, recorded, strict=True)):
        row |= {"recorded": answer, "logprobs": logprobs[number] if logprobs else None}
    tree = yaml.safe_load(path.read_text())
    tree["data"] = {"train": [{"path": str(write_jsonl(folder / "rows.jsonl", rows))}]}
    used = {"answer": "recorded", "logprobs": "logprobs" if logprobs else None, **options}
    tree["algorithm"] = {"plugins": ["offline_mix"], "plugin_options": {"offline_mix": used}}
    path.write_text(yaml.safe_dump(tree))
    batches: list[RolloutBatch] = []
    update = grpo.GrpoStage._update

    def watched(self: grpo.GrpoStage, batch: RolloutBatch, *others: Any) -> Any:
        batches.append(batch)
        return update(self, batch, *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpo.GrpoStage, "_update", watched)
        assert train(load_config(path, ["checkpoint.best=null", "rollout.max_new_tokens=6"])) == 0
    return batches


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "lr" in line]


def test_a_recorded_text_joins_its_group_with_its_score(tmp_path):
    batches = run(tmp_path, ["ab", None, "X"])
    for batch, row in zip(batches, metrics(tmp_path), strict=True):
        offline = batch.meta[OFFLINE] == 1
        assert offline.sum() == 2 and len(batch) == 3 * 3 + 2
        assert [kind for kind, is_ in zip(batch.kind, offline.tolist(), strict=True) if is_] == ["replay"] * 2
        assert (batch.old_NC[offline] == 0).all(), "no recorded log-probs: the ratio is the policy itself"
        assert not batch.truncated_N[offline].any()
        letters = batch.reward_names.index("letters")
        assert sorted(batch.rewards_NK[offline, letters].tolist()) == [0.0, 1.0]
        assert row["offline_mix/offline/rows"] == 2 and row["policy/offline_ratio"] > 0
        assert set(batch.gid_N[offline].tolist()) < set(batch.gid_N[~offline].tolist())


def test_ids_with_log_probs_are_taken_as_they_are(tmp_path):
    [end, *_] = load_processor(yaml.safe_load(write_run(tmp_path / "x").read_text())["model"]["path"]).eos_ids
    ids, logprobs = [5, 6, end], [-0.5, -1.0, -0.25]
    batches = run(tmp_path, [ids] * 3, logprobs=[logprobs] * 3)
    for batch in batches:
        offline = batch.meta[OFFLINE] == 1
        assert batch.ids_NC[offline][:, :3].tolist() == [ids] * 3
        assert batch.old_NC[offline][:, :3].tolist() == [logprobs] * 3
        assert batch.length_N[offline].tolist() == [3] * 3


def test_overlong_and_unfinished_answers_are_left_out_and_counted(tmp_path):
    batches = run(tmp_path, ["a long answer that has far more than six tokens", [5, 6], "a"], correction="none")
    assert [row["offline_mix/overlong"] for row in metrics(tmp_path)] == [1.0, 1.0]
    assert [row["offline_mix/unfinished"] for row in metrics(tmp_path)] == [1.0, 1.0]
    for batch in batches:
        assert (batch.meta[OFFLINE] == 1).sum() == 1 and set(batch.kind) <= {"fresh"}
        torch.testing.assert_close(batch.old_NC, batch.rollout_NC, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("recorded", "logprobs", "message"),
    [
        ([7.5], [], r"rows.jsonl:1 .*column 'recorded' \(offline_mix's `answer`\) is a number"),
        (
            ["a"],
            [[-1.0] * 9],
            r"rows.jsonl:1 .*column 'logprobs' \(offline_mix's `logprobs`\) must hold a log-prob for",
        ),
    ],
)
def test_what_cannot_be_used_names_the_row(tmp_path, recorded, logprobs, message):
    with pytest.raises(DataError, match=message):
        run(tmp_path, recorded, logprobs=logprobs)
