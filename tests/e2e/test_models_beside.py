"""Models beside the policy (PRIME's reward model): read in training, trained from outcomes, resumed exactly."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from makers.tiny_models import tiny_model_dir
from makers.tiny_run import write_run
from safetensors.torch import load_file, save_file

from mmrl.config.load import load_config
from mmrl.config.schema import RunConfig
from mmrl.errors import CheckpointError, ConfigError
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.run import train

PLAIN = ("checkpoint.best=null", "data.val=[]", "validation.before_first=false", "checkpoint.every=1")


def load(
    folder: Path, options: dict, *overrides: str, steps: int = 3, reward: str = "len(completion) % 2"
) -> tuple[RunConfig, Path]:
    """A reward of 0 or 1, so that it is an outcome."""
    stages = [{"name": "rl", "kind": "grpo", "steps": steps, "prompts_per_step": 4, "lr": 1e-3}]
    path = write_run(folder, stages=stages)
    (folder / "reward.py").write_text(f"def score(completion, sample):\n    return {reward}\n")
    options_of = json.dumps({"prime": options})
    own = ("algorithm.plugins=[prime]", f"algorithm.plugin_options={options_of}")
    config = load_config(path, [*PLAIN, *own, *overrides])
    tasks = {"t": config.rewards.tasks["t"][:1]}
    return config.model_copy(
        update={"rewards": config.rewards.model_copy(update={"tasks": tasks})}
    ), folder / "runs/tiny"


def metrics(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


def changed_model(folder: Path) -> Path:
    """The tiny model with other weights of its output head."""
    shutil.copytree(tiny_model_dir("qwen2_5_vl"), folder)
    weights = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(3)
    for name, tensor in weights.items():
        if "mlp" in name:
            weights[name] = tensor + 0.05 * torch.randn(tensor.shape, generator=generator)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_a_frozen_model_equal_to_the_reference_is_rloo(tmp_path: Path):
    """Its log-ratios are exactly 0, so it trains as the column of zeros would; another model trains otherwise."""
    same, folder = load(tmp_path / "same", {"model": str(tiny_model_dir("qwen2_5_vl")), "lr": None}, steps=2)
    assert train(same) == 0
    zeros, other_folder = load(tmp_path / "zeros", {"process_coef": 0.0, "implicit": "letters"}, steps=2)
    assert train(zeros) == 0
    assert metrics(folder) == metrics(other_folder)
    model = str(changed_model(tmp_path / "model"))
    other, folder = load(tmp_path / "other", {"model": model, "reference": model, "lr": None}, steps=2)
    assert train(other) == 0
    assert metrics(folder) == metrics(other_folder)
    other, folder = load(tmp_path / "differs", {"model": model, "lr": None}, steps=2)
    assert train(other) == 0
    assert metrics(folder)[0]["policy/policy_loss"] != metrics(other_folder)[0]["policy/policy_loss"]
    assert not (find_checkpoints(folder)[-1] / "beside").exists()


def test_the_model_learns_the_outcome(tmp_path: Path):
    """Its loss begins at ln 2, where model and reference are equal. All completions are wrong, and nearly greedy ones
    of all prompts, so the same in every step: they come to be less likely than under the reference.
    """
    options = {"model": str(tiny_model_dir("qwen2_5_vl")), "lr": 1e-4, "beta": 1.0}
    greedy = ("stages.0.lr=1e-9", "stages.0.prompts_per_step=9", "rollout.temperature=0.02")
    config, folder = load(tmp_path, options, *greedy, reward="0.0")
    assert train(config) == 0
    losses = [row["prime/loss"] for row in metrics(folder)]
    assert losses[0] == pytest.approx(0.693147, abs=1e-5)
    assert losses[2] < losses[1] < losses[0] - 0.05, losses
    hooks = json.loads((folder / "hooks.json").read_text())
    assert "model_loss: prime" in hooks
    assert "needs: model:prime, ref" in hooks


@pytest.mark.parametrize(("zero_stage", "dtype"), [(0, "float32"), (2, "bfloat16"), (3, "float32")])
def test_a_resumed_run_goes_on_exactly(tmp_path: Path, zero_stage: int, dtype: str):
    options = {"model": str(tiny_model_dir("qwen2_5_vl")), "lr": 1e-3}
    config, folder = load(tmp_path, options, f"train.zero_stage={zero_stage}", f"model.dtype={dtype}")
    assert train(config) == 0
    *kept, last = find_checkpoints(folder)
    begun = load_file(tiny_model_dir("qwen2_5_vl") / "model.safetensors")
    whole = metrics(folder), load_file(last / "beside/prime/model.safetensors")
    assert any(not torch.equal(tensor.float(), begun[name]) for name, tensor in whole[1].items())
    for checkpoint in (*kept[1:], last):
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert metrics(folder) == whole[0]
    assert all(torch.equal(t, whole[1][n]) for n, t in load_file(last / "beside/prime/model.safetensors").items())


def test_a_run_that_was_begun_without_it_cannot_go_on_with_it(tmp_path: Path):
    options = {"model": str(tiny_model_dir("qwen2_5_vl")), "lr": None}
    config, folder = load(tmp_path, options, steps=2)
    assert train(config) == 0
    shutil.rmtree(find_checkpoints(folder)[-1])
    learning = {"prime": {**options, "lr": 1e-3}}
    algorithm = config.algorithm.model_copy(update={"plugin_options": learning})
    with pytest.raises(CheckpointError, match=r"beside/prime is missing: the run was begun without a model 'prime'"):
        train(config.model_copy(update={"algorithm": algorithm}), resume=True)


def test_a_model_of_another_family_or_with_other_tokens_is_refused(tmp_path: Path):
    config, _ = load(tmp_path, {"model": str(tiny_model_dir("qwen3_vl"))}, steps=1)
    with pytest.raises(ConfigError, match=r"model 'prime' \(.*\) is of the family qwen3_vl, the policy of qwen2_5_vl"):
        train(config)
    folder = tmp_path / "tokens"
    shutil.copytree(tiny_model_dir("qwen2_5_vl"), folder)
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"<|vision_pad|>"', '"<|other_pad|>"'))
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).is_file():
            (folder / name).write_text((folder / name).read_text().replace("<|vision_pad|>", "<|other_pad|>"))
    config, _ = load(tmp_path / "more", {"model": str(folder)}, steps=1)
    with pytest.raises(ConfigError, match=r"model 'prime' \(.*tokens\) has other tokens than the policy"):
        train(config)
