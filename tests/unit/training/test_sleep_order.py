"""When the rollout engine sleeps: the calls it gets in a training, in their order, around real updates."""

import itertools

import pytest
from makers.tiny_run import write_run

from mmrl.config.load import load_config
from mmrl.rollout.hf_engine import HfEngine
from mmrl.training import step
from mmrl.training.run import train

STAGES = [
    {"name": "warmup", "kind": "sft", "steps": 2, "prompts_per_step": 2, "lr": 1e-3},
    {"name": "rl", "kind": "grpo", "steps": 2, "prompts_per_step": 2, "lr": 1e-3},
]
SAMPLED = ["wake", "sync", "generate", "sleep"]
AGAIN = ["wake", "generate", "sleep"]  # the weights are those of the last time


class ForgetfulEngine(HfEngine):
    """Loses its weights when it sleeps, as vLLM does, and with them the right to generate."""

    forgets = True
    calls: list[str]
    _kept = False

    @property
    def has_weights(self) -> bool:
        return self._kept

    def generate(self, requests):
        assert self._kept
        self.calls.append("generate")
        return super().generate(requests)

    def sync_weights(self, named_tensors, policy_version):
        assert self._state == "awake"
        super().sync_weights(named_tensors, policy_version)
        self.calls.append("sync")
        self._kept = True

    def sleep(self):
        super().sleep()
        self.calls.append("sleep")
        self._kept = not self.forgets

    def wake(self):
        super().wake()
        self.calls.append("wake")


@pytest.fixture
def calls(monkeypatch) -> list[str]:
    """What the engine and the optimizer did, in order; equal calls in a row are one."""
    calls: list[str] = []

    class Engine(ForgetfulEngine):
        pass

    Engine.calls = calls
    apply_step = step.apply_step

    def counted(engine):
        calls.append("train")
        return apply_step(engine)

    monkeypatch.setattr(step, "apply_step", counted)
    monkeypatch.setattr("mmrl.rollout.open.HfEngine", Engine)
    monkeypatch.setattr(ForgetfulEngine, "forgets", True)
    return calls


def once(calls: list[str]) -> list[str]:
    return [call for call, _ in itertools.groupby(calls)]


def run(folder, *changes: str) -> None:
    config = write_run(folder, stages=STAGES, checkpoint={"every": 1})
    assert train(load_config(config, list(changes))) == 0


def test_an_engine_wakes_gets_weights_and_sleeps_again_before_each_update(calls, tmp_path):
    """Opening, the validations before each stage and after it, and two steps each. Supervised steps wake nothing."""
    run(tmp_path, "validation.before_first=true")
    first = ["sync", "sleep", *SAMPLED, "train", *SAMPLED]  # two updates, one after the other
    assert once(calls) == [*first, *SAMPLED, "train", *SAMPLED, "train", *SAMPLED]


def test_an_engine_that_keeps_its_weights_gets_them_once_after_each_update(calls, tmp_path, monkeypatch):
    monkeypatch.setattr(ForgetfulEngine, "forgets", False)
    run(tmp_path, "validation.before_first=true")
    first = ["sync", "sleep", *AGAIN, "train", *SAMPLED]
    assert once(calls) == [*first, *AGAIN, "train", *SAMPLED, "train", *SAMPLED]


def test_averages_are_sent_for_a_validation_and_the_weights_after_it(calls, tmp_path, monkeypatch):
    """Writing checkpoints, averages among them, leaves the engine asleep."""
    monkeypatch.setattr(ForgetfulEngine, "forgets", False)
    run(tmp_path, "validation.before_first=false", "train.ema_decay=0.5")
    assert once(calls) == ["sync", "sleep", "train", *SAMPLED, *SAMPLED, "train", *SAMPLED, "train", *SAMPLED]
