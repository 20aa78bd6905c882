"""PPO with a value head: values come to fit the rewards, and a resumed run goes on exactly."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from makers.tiny_run import write_run
from safetensors.torch import load_file

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.errors import ConfigError
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

PPO = ("algorithm.advantage=gae", "checkpoint.best=null", "data.val=[]", "validation.before_first=false")


def load(folder: Path, *overrides: str, steps: int, lr: float = 1e-3) -> tuple[RunConfig, Path]:
    stages = [{"name": "rl", "kind": "grpo", "steps": steps, "prompts_per_step": 4, "lr": lr}]
    return load_config(write_run(folder, stages=stages), [*PPO, *overrides]), folder / "runs" / "tiny"


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


def test_values_come_to_fit_a_constant_reward(tmp_path: Path):
    """The policy hardly moves; every completion is worth 0.7, so the values of all tokens go from 0 to 0.7."""
    config, folder = load(
        tmp_path,
        *("algorithm.value.lr_ratio=1e3", "algorithm.value.clip=null", "algorithm.value.detach=true"),
        *("rollout.max_new_tokens=3", "rollout.group_size=2", "train.betas=[0.5,0.9]"),
        steps=20,
        lr=2e-6,
    )
    (tmp_path / "reward.py").write_text("def score(completion, sample):\n    return 0.7\n")
    config = config.model_copy(
        update={"rewards": config.rewards.model_copy(update={"tasks": {"t": config.rewards.tasks["t"][:1]}})}
    )
    assert train(config) == 0
    rows = metrics(folder)
    assert (rows[0]["policy/value"], rows[0]["policy/value_error"]) == pytest.approx((0.0, 0.49), abs=1e-6)
    assert rows[-1]["policy/value"] == pytest.approx(0.7, abs=0.07)
    assert rows[-1]["policy/value_error"] < 0.02


@pytest.mark.parametrize(("zero_stage", "dtype"), [(0, "float32"), (2, "bfloat16")])
def test_a_resumed_run_goes_on_exactly(tmp_path: Path, zero_stage: int, dtype: str):
    config, folder = load(
        tmp_path,
        "checkpoint.every=1",
        f"train.zero_stage={zero_stage}",
        f"model.dtype={dtype}",
        "algorithm.ref_kl_coef=0.1",
        "algorithm.ref_kl_in=reward",
        "algorithm.ref_kl_target=0.1",
        steps=3,
    )
    assert train(config) == 0
    *kept, last = find_checkpoints(folder)
    whole = metrics(folder), load_file(last / "value_head.safetensors"), load_file(last / "model/model.safetensors")
    assert all((tensor != 0).any() for tensor in whole[1].values())
    assert "value_head" not in " ".join(whole[2])
    for checkpoint in (*kept[1:], last):
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert metrics(folder) == whole[0]
    assert all(torch.equal(t, whole[1][n]) for n, t in load_file(last / "value_head.safetensors").items())
    assert all(torch.equal(t, whole[2][n]) for n, t in load_file(last / "model/model.safetensors").items())


def test_zero_3_is_refused(tmp_path: Path):
    config, _ = load(tmp_path, "train.zero_stage=3", steps=1)
    with pytest.raises(ConfigError, match=r"'train.zero_stage' is 3, under which the value head"):
        train(config)
