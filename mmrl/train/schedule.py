"""Learning-rate schedules and the optimizer: pure arithmetic and one constructor."""

from __future__ import annotations

import math
from typing import Any

import torch

from mmrl.config.schema import StageSection, TrainSection
from mmrl.models.quantize import require_bitsandbytes


def learning_rate(stage: StageSection, step: int) -> float:
    """Learning rate of the `step`-th optimizer step of a stage (from 0).

    Warm-up is linear and reaches `lr` at step `warmup_steps`; after it the rate stays, or falls linearly or by half a
    cosine to `lr * min_lr_ratio` at the last step.

    >>> s = StageSection(name="s", kind="sft", steps=5, prompts_per_step=1, lr=1.0, lr_schedule="linear")
    >>> [learning_rate(s, i) for i in range(5)]
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """
    if step < stage.warmup_steps:
        return stage.lr * (step + 1) / (stage.warmup_steps + 1)
    if stage.lr_schedule == "constant":
        return stage.lr
    done = (step - stage.warmup_steps) / max(1, stage.steps - 1 - stage.warmup_steps)
    fall = 1.0 - done if stage.lr_schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return stage.lr * (stage.min_lr_ratio + (1.0 - stage.min_lr_ratio) * fall)


def build_optimizer(model: torch.nn.Module, train: TrainSection) -> torch.optim.Optimizer:
    """AdamW over the trainable parameters. Weight decay (set per stage) leaves biases and norm weights alone.

    Raises ConfigError, naming the extra, for `adamw8bit` without bitsandbytes.
    """
    decayed = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    plain = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [{"params": decayed, "decays": True}, {"params": plain, "decays": False}]
    settings = {"lr": 0.0, "betas": train.betas, "eps": train.eps, "weight_decay": 0.0}
    return _adamw_class(train)([g for g in groups if g["params"]], **settings)


def _adamw_class(train: TrainSection) -> Any:
    if train.optimizer == "adamw":
        return torch.optim.AdamW
    require_bitsandbytes(f"train.optimizer {train.optimizer!r}")
    from bitsandbytes.optim import AdamW8bit

    return AdamW8bit


def set_hyperparameters(optimizer: torch.optim.Optimizer, *, lr: float, weight_decay: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
        group["weight_decay"] = weight_decay if group["decays"] else 0.0


def reset_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Forget Adam's moments, as at the start of a run. DeepSpeed's ZeRO and bf16 wrappers hold the real one inside."""
    inner = getattr(optimizer, "optimizer", optimizer)
    inner.state.clear()
