"""Sampling one step ahead of training: which policy answers which step, and that stopping and resuming stay exact.

The engine is the reference one over a copy of the policy; `tests/e2e/test_vllm.py` does the same with vLLM.
"""

import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from makers.copied import CopiedEngine, use_copied_engine
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.errors import EngineError
from mmrl.training import step
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

ROLLOUT = {"group_size": 3, "max_new_tokens": 4, "engine": "vllm", "steps_ahead": 1}
PATIENCE_S = 60


@pytest.fixture
def engine(monkeypatch) -> type[CopiedEngine]:
    return use_copied_engine(monkeypatch)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sampling")]


def run(folder: Path, *changes: str, steps: int = 6, resume: bool = False, **sections: object) -> int:
    """Train without validations, unless a change sets how often there is one."""
    stage = {"name": "rl", "kind": "grpo", "steps": steps, "prompts_per_step": 2, "lr": 1e-2}
    options = {"algorithm": {"rollout_correction": "truncate"}, "rollout": ROLLOUT, "stages": [stage], **sections}
    path = folder / "config.yaml" if resume else write_run(folder, **options)
    if not any(change.startswith("validation.every") for change in changes):
        changes = ("data.val=[]", *changes)
    return train(load_config(path, list(changes)), resume=resume)


def metrics(folder: Path) -> list[dict]:
    rows = [json.loads(line) for line in (folder / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("perf/")} for row in rows if "lr" in row]


def versions(folder: Path) -> list[int]:
    """Of the first completion written in each step."""
    rows = [json.loads(line) for line in (folder / "runs" / "tiny" / "rollouts.jsonl").read_text().splitlines()]
    return [row["policy_version"] for row in rows if row["split"] == "train"]


def column(folder: Path, key: str) -> list[float]:
    return [row[key] for row in metrics(folder)]


ONE = {"log": {"console": False, "trackers": [], "rollouts_per_step": 1}}


def test_a_step_is_answered_by_the_policy_before_the_last_step_but_after_a_checkpoint(engine, tmp_path):
    assert run(tmp_path, "checkpoint.every=3", **ONE) == 0
    assert column(tmp_path, "rollout/staleness") == [0, 1, 1, 0, 1, 1]
    assert column(tmp_path, "rollout/staleness_max") == [0, 1, 1, 0, 1, 1]
    assert versions(tmp_path) == [0, 0, 1, 3, 3, 4]
    main, ahead = "MainThread", "sampling_0"
    assert engine.threads == [main, ahead, ahead, main, ahead, ahead]
    weights = column(tmp_path, "policy/correction_weight")
    assert [abs(weight - 1) < 1e-6 for weight in weights] == [True, False, False, True, False, False]
    assert ["policy/rollout_gap" in row for row in metrics(tmp_path)] == [True, False, False, True, False, False]


@pytest.mark.parametrize("ahead", [0, 1])
def test_rewards_see_how_much_of_the_stage_is_done(engine, tmp_path, ahead):
    rollout = {**ROLLOUT, "steps_ahead": ahead}
    stage = {"name": "rl", "kind": "grpo", "steps": 4, "prompts_per_step": 2}
    path = write_run(tmp_path, rollout=rollout, stages=[stage])
    (tmp_path / "reward.py").write_text("def score(completion, sample):\n    return sample.progress\n")
    assert train(load_config(path, ["algorithm.rollout_correction=truncate", "validation.every=2"])) == 0
    rows = [json.loads(line) for line in (tmp_path / "runs" / "tiny" / "rollouts.jsonl").read_text().splitlines()]
    seen = [row["reward_breakdown"]["letters"] for row in rows if row["split"] == "train"]
    assert list(dict.fromkeys(seen)) == [0.0, 0.25, 0.5, 0.75]
    assert {row["reward_breakdown"]["letters"] for row in rows if row["split"] != "train"} == {1.0}


def test_training_goes_on_while_the_next_step_is_sampled(engine, tmp_path, monkeypatch):
    """Sampling ahead waits, in its thread, for the update that it runs beside."""
    updated, apply_step = threading.Event(), step.apply_step

    def hold(self: CopiedEngine) -> None:
        if threading.current_thread() is not threading.main_thread():
            assert updated.wait(PATIENCE_S)
            updated.clear()

    def counted(trainer):
        updated.set()
        return apply_step(trainer)

    engine.hold = hold
    monkeypatch.setattr(step, "apply_step", counted)
    assert run(tmp_path, steps=3) == 0
    assert column(tmp_path, "rollout/staleness") == [0, 1, 1]


def test_workers_score_what_is_sampled_ahead_as_the_main_thread_does(engine, tmp_path):
    for workers in (0, 1):
        assert run(tmp_path / str(workers), f"rewards.workers={workers}", steps=3) == 0
    assert metrics(tmp_path / "0") == metrics(tmp_path / "1")


def test_three_steps_a_stop_and_three_more_are_six(engine, tmp_path):
    assert run(tmp_path, "checkpoint.every=3") == 0
    folder = tmp_path / "runs" / "tiny"
    last = find_checkpoints(folder)[-1]
    whole = (metrics(tmp_path), versions(tmp_path), (last / "model" / "model.safetensors").read_bytes())
    shutil.rmtree(last)
    assert run(tmp_path, "checkpoint.every=3", resume=True) == 0
    assert (metrics(tmp_path), versions(tmp_path), (last / "model" / "model.safetensors").read_bytes()) == whole


def test_validations_find_the_engine_free_and_an_early_stop_leaves_nothing_behind(engine, tmp_path):
    """Validated every second step; no score is better than the first one by 9, so the fourth step is the last."""
    stage = {"name": "rl", "kind": "grpo", "steps": 8, "prompts_per_step": 2, "lr": 1e-2}
    stage["early_stop"] = {"patience": 1, "min_delta": 9.0}
    code = run(tmp_path, "validation.every=2", "validation.before_first=false", stages=[stage])
    assert code == 0
    assert column(tmp_path, "rollout/staleness") == [0, 1, 0, 1]


def test_rounds_of_dynamic_sampling_after_the_first_are_on_policy(engine, tmp_path):
    """A reward that is equal within most groups: more rounds, whose completions are of the present policy."""
    (tmp_path / "flat.py").write_text(
        "def score(completion, sample):\n    return float(sum(c.islower() for c in completion) % 3 == 0)\n"
    )
    reward = [{"reward": "./flat.py:score", "name": "flat"}]
    algorithm = {"rollout_correction": "truncate", "dynamic_sampling": True, "max_generation_rounds": 50}
    rewards = {"workers": 0, "tasks": {"t": reward}}
    assert run(tmp_path, algorithm=algorithm, rewards=rewards, steps=5) == 0
    rounds, ages = column(tmp_path, "groups/rounds"), column(tmp_path, "rollout/staleness")
    assert max(rounds) > 1
    assert ages[0] == 0 and all(0 <= age <= 1 for age in ages)
    assert any(0 < age < 1 or (age == 0 and n > 1) for age, n in zip(ages[1:], rounds[1:], strict=True))


def test_an_engine_that_fails_ahead_ends_the_run_at_its_step(engine, tmp_path):
    def hold(self: CopiedEngine) -> None:
        if len(self.threads) == 3:
            raise EngineError("out of order")

    engine.hold = hold
    with pytest.raises(EngineError, match="out of order"):
        run(tmp_path)
    assert len(metrics(tmp_path)) == 2


def test_sigterm_draws_the_prompts_that_were_under_way_again(engine, tmp_path):
    """The stop comes while step 4 is being sampled; the run goes on with the prompts of that step, on policy."""

    def hold(self: CopiedEngine) -> None:
        if len(self.threads) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
            while not self.is_closed:
                threading.Event().wait(0.01)

    engine.hold = hold
    assert run(tmp_path, **ONE) == 75
    [checkpoint] = find_checkpoints(tmp_path / "runs" / "tiny")
    state = json.loads((checkpoint / "state.json").read_text())
    assert (state["position"]["stage_step"], sum(state["stage_state"]["loader"]["taken"])) == (3, 6)
    engine.hold = None
    assert run(tmp_path, resume=True, **ONE) == 0
    assert column(tmp_path, "rollout/staleness") == [0, 1, 1, 0, 1, 1]


def test_an_interruption_ends_what_is_sampled_ahead(engine, tmp_path, monkeypatch):
    """The engine is in the middle of a generation that would never end by itself."""
    began = threading.Event()

    def hold(self: CopiedEngine) -> None:
        if len(self.threads) == 2:
            began.set()
            while not self.is_closed:
                threading.Event().wait(0.01)

    def interrupted(trainer):
        assert began.wait(PATIENCE_S)
        raise KeyboardInterrupt

    engine.hold = hold
    monkeypatch.setattr(step, "apply_step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
