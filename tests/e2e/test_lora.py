"""Training adapters: exact resume, one copy of the model, a reference without a second one."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from makers.lora import lora_section, media_logprobs
from makers.tiny_models import tiny_model_dir
from makers.tiny_run import write_run
from safetensors.torch import load_file

from mmrl.config.load import load_config
from mmrl.models.load import load_weights
from mmrl.models.trained import trained_tensors
from mmrl.models.trained_with import checkpoint_settings
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.reference import AdapterReference
from mmrl.training.run import train
from mmrl.training.runtime import open_runtime

LORA = "model.lora={rank: 4, targets: [vision_tower, projector, language_model]}"
RUN = (LORA, "checkpoint.every=1", "algorithm.ref_kl_coef=0.1", "data.val=[]")


def rows(folder: Path) -> list[dict]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("perf/")} for line in lines]


def adapter(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(find_checkpoints(folder)[-1] / "model" / "adapter_model.safetensors")


def test_three_steps_and_three_more_are_six(tmp_path: Path):
    config, folder = load_config(write_run(tmp_path), RUN), tmp_path / "runs" / "tiny"
    assert train(config) == 0
    whole = rows(folder), adapter(folder)
    assert all(row["grad_norm"] > 0 for row in whole[0])
    first_rl, *later = (row for row in whole[0] if row["stage"] == "rl")
    assert first_rl["policy/ref_kl"] == pytest.approx(0, abs=1e-9)  # to the stage's first policy
    assert later[-1]["policy/ref_kl"] > 1e-7
    assert all(row["policy/rollout_gap"] < 1e-5 for row in [first_rl, *later])  # rollouts use the adapters
    for checkpoint in find_checkpoints(folder)[3:]:
        shutil.rmtree(checkpoint)
    assert train(config, resume=True) == 0
    assert rows(folder) == whole[0]
    assert all(torch.equal(tensor, whole[1][name]) for name, tensor in adapter(folder).items())

    saved = find_checkpoints(folder)[-1]
    settings = checkpoint_settings(saved)
    assert settings is not None and settings.base_model == str(tiny_model_dir("qwen2_5_vl"))
    optimizer = torch.load(saved / "optimizer-0.pt", weights_only=True)
    assert len(optimizer["state"]) == len(adapter(folder))  # DeepSpeed received adapters alone
    assert not (folder / "reference" / "rl" / "model.safetensors").exists()


def test_a_run_holds_the_model_once_and_its_first_reference_is_the_base(tmp_path: Path):
    config = load_config(write_run(tmp_path), [LORA])
    (tmp_path / "run").mkdir()
    run = open_runtime(config, tmp_path / "run", model_path=Path(config.model.path))
    try:
        reference = AdapterReference(run.policy, run.trainer, trained_tensors(run.policy))
        assert run.trainer.module.model is run.policy is run.rollout.model
        copies = sum(t.numel() for t in reference.adapters.values())
        assert copies < 0.1 * sum(p.numel() for p in run.policy.parameters())
        with torch.no_grad():
            for parameter in run.policy.parameters():
                parameter.add_(0.1 if parameter.requires_grad else 0.0)
            base = load_weights(lora_section("qwen2_5_vl"))
            moved = media_logprobs(run.policy, "qwen2_5_vl")
            assert torch.equal(media_logprobs(reference, "qwen2_5_vl"), media_logprobs(base, "qwen2_5_vl"))
            assert not torch.equal(moved, media_logprobs(base, "qwen2_5_vl"))
    finally:
        run.close()


def test_bfloat16_adapters_over_quantized_weights_train_and_resume_exactly(tmp_path: Path):
    pytest.importorskip("bitsandbytes", reason="the extra mmrl[quantized] is not installed")
    changes = [*RUN, "model.quantization=nf4", "model.dtype=bfloat16", "stages.0.steps=1", "stages.1.steps=2"]
    config, folder = load_config(write_run(tmp_path), changes), tmp_path / "runs" / "tiny"
    assert train(config) == 0
    whole = rows(folder), adapter(folder)
    assert all(row["grad_norm"] > 0 for row in whole[0])
    shutil.rmtree(find_checkpoints(folder)[-1])
    assert train(config, resume=True) == 0
    assert rows(folder) == whole[0]
    assert all(torch.equal(tensor, whole[1][name]) for name, tensor in adapter(folder).items())
