"""Options of the training step that change its cost and not its numbers: padding, reading ahead, reused log-probs."""

import json
from pathlib import Path

import pytest
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.training import grpo
from mmrl.training.run import train

STAGE = {"name": "rl", "kind": "grpo", "steps": 3, "prompts_per_step": 3, "lr": 1e-2}
SFT = {"name": "warmup", "kind": "sft", "steps": 2, "prompts_per_step": 4, "lr": 1e-3}


def rows_of(folder: Path, *changes: str, **sections: object) -> list[dict]:
    """The metrics of a run's steps. All runs of a test read one cache."""
    path = write_run(folder, **{"stages": [STAGE], **sections})
    train(load_config(path, ["data.val=[]", *changes]))
    lines = (folder / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "lr" in row]


def assert_alike(left: list[dict], right: list[dict], *, but: tuple[str, ...] = ()) -> None:
    """The same numbers up to rounding, what depends on the machine left out."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for key in one.keys() | other.keys():
            if key.startswith("perf/") or key in but or not isinstance(one.get(key), float):
                continue
            assert one[key] == pytest.approx(other[key], abs=2e-4), key


def test_padding_changes_rounding_alone(tmp_path):
    free = rows_of(tmp_path / "free", stages=[SFT, STAGE])
    padded = rows_of(tmp_path / "padded", "train.padding_free=false", stages=[SFT, STAGE])

    assert_alike(free, padded, but=("rows/padding_saved", "policy/rollout_gap", "policy/rollout_gap_max"))
    assert {row["rows/padding_saved"] for row in padded} == {0.0}
    assert max(row["rows/padding_saved"] for row in free) > 0


def test_reading_ahead_changes_nothing(tmp_path):
    ahead = rows_of(tmp_path / "ahead", "data.prefetch=2")
    alone = rows_of(tmp_path / "alone", "data.prefetch=0")

    for left, right in zip(ahead, alone, strict=True):
        machine = {key for key in left if key.startswith("perf/")}
        assert {k: v for k, v in left.items() if k not in machine} == {
            k: v for k, v in right.items() if not k.startswith("perf/")
        }
        assert 0 <= left["perf/data_stall"] <= 1


@pytest.fixture
def passes(monkeypatch) -> list[int]:
    """The rows of each log-prob pass without gradient."""
    counted: list[int] = []
    inner = grpo.logprob_pass

    def count(model, rows, **options):
        counted.append(len(rows))
        return inner(model, rows, **options)

    monkeypatch.setattr(grpo, "logprob_pass", count)
    return counted


def test_the_sampler_s_log_probs_are_the_old_ones_where_it_shares_the_weights(tmp_path, passes):
    """Two updates a batch compare with old log-probs: those of the rollout, without a pass, or those of a pass."""
    algorithm = {"updates_per_batch": 2}
    reused = rows_of(tmp_path / "auto", algorithm=algorithm)
    assert passes == []
    taken = rows_of(tmp_path / "trainer", algorithm={**algorithm, "old_logprobs": "trainer"})
    assert len(passes) == STAGE["steps"]

    assert [row["policy/old_reused"] for row in reused] == [1.0] * 3
    assert [row["policy/old_reused"] for row in taken] == [0.0] * 3
    assert_alike(reused, taken, but=("policy/old_reused", "policy/rollout_gap", "policy/rollout_gap_max"))
    assert all(row["policy/rollout_gap_max"] < 1e-5 for row in (*reused, *taken))
    assert all(row["policy/rollout_gap_max"] > 0 for row in reused)  # measured on the first update, not of itself


@pytest.mark.parametrize("change", [{"top_k": 5}, {"top_p": 0.9}])
def test_a_filtered_sampler_s_log_probs_are_not_reused(tmp_path, passes, change):
    rollout = {"group_size": 3, "max_new_tokens": 4, **change}
    algorithm = {"updates_per_batch": 2, "rollout_correction": "truncate"}
    rows = rows_of(tmp_path, algorithm=algorithm, rollout=rollout, stages=[{**STAGE, "steps": 1}])

    assert [row["policy/old_reused"] for row in rows] == [0.0]
    assert len(passes) == 1
