"""Learning-rate schedules, when to validate and save, and the optimizer: pure arithmetic and one constructor."""

from __future__ import annotations

import math
from typing import Any

import torch

from mmrl.config.schema import RunConfig, StageSection, TrainSection
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


def validation_due(config: RunConfig, stage: StageSection, *, done: int) -> bool:
    """Whether held-out rows are scored after `done` steps of a stage: every so many, and at its end."""
    every = config.validation.every
    return done == stage.steps or bool(every and done % every == 0)


def evaluation_due(config: RunConfig, stage: StageSection, *, done: int) -> bool:
    """Whether benchmarks are run after `done` steps of a stage: every so many, and at its end."""
    every = config.evaluate.every
    return done == stage.steps or bool(every and done % every == 0)


def checkpoint_due(config: RunConfig, stage: StageSection, *, done: int) -> bool:
    """Whether a checkpoint is written after `done` steps of a stage, whatever the scores."""
    every = config.checkpoint.every
    return done == stage.steps or bool(every and done % every == 0)


def build_optimizer(
    model: torch.nn.Module,
    train: TrainSection,
    *,
    value_head: torch.nn.Module | None = None,
    value_lr_ratio: float = 1.0,
) -> torch.optim.Optimizer:
    """The optimizer over the trainable parameters. Weight decay (set per stage) leaves biases and norm weights alone,
    and the value head, which has a multiple of the stage's rate.

    Raises ConfigError, naming the extra, for `adamw8bit` without bitsandbytes.
    """
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in trained if train.optimizer == "muon" and _is_layer_matrix(name, p)]
    others = [p for _, p in trained if all(p is not matrix for matrix in matrices)]
    groups = [
        {"params": [p for p in others if p.ndim > 1], "decays": True, "lr_ratio": 1.0},
        {"params": [p for p in others if p.ndim <= 1], "decays": False, "lr_ratio": 1.0},
    ]
    if value_head is not None:
        groups.append({"params": list(value_head.parameters()), "decays": False, "lr_ratio": value_lr_ratio})
    adam = {"lr": 0.0, "betas": train.betas, "eps": train.eps, "weight_decay": 0.0}
    if train.optimizer == "muon":
        return _muon(matrices, [{**group, **adam} for group in groups if group["params"]], train)
    return _adamw_class(train)([group for group in groups if group["params"]], **adam)


def _is_layer_matrix(name: str, parameter: torch.nn.Parameter) -> bool:
    """A weight of a linear map inside the network. Embeddings and the output head are tables of vectors, and the patch
    embedding is a filter; orthogonalising their steps makes no sense (Jordan et al. 2024).
    """
    return parameter.ndim == 2 and not any(word in name for word in ("embed", "lm_head"))


def _muon(matrices: list[torch.nn.Parameter], adam_groups: list[dict[str, Any]], train: TrainSection) -> Any:
    """DeepSpeed's Muon, whose ZeRO stages orthogonalise whole matrices before they are cut into partitions."""
    from deepspeed.runtime.zero.muon.muon_optimizer import MuonWithAuxAdam

    if not torch.cuda.is_available():
        torch.compiler.set_stance("force_eager")  # its kernels would be compiled by a C++ compiler at the first step
    for parameter in matrices:
        parameter.use_muon = True  # type: ignore[attr-defined]  # how DeepSpeed tells them apart
    for parameter in (p for group in adam_groups for p in group["params"]):
        parameter.use_muon = False
    muon = {"use_muon": True, "lr": 0.0, "momentum": train.muon_momentum, "weight_decay": 0.0}
    group = {"params": matrices, "decays": True, "lr_ratio": train.muon_lr_ratio, **muon}
    return MuonWithAuxAdam([*([group] if matrices else []), *({**g, "use_muon": False} for g in adam_groups)])


def _adamw_class(train: TrainSection) -> Any:
    if train.optimizer == "adamw":
        return torch.optim.AdamW
    require_bitsandbytes(f"train.optimizer {train.optimizer!r}")
    from bitsandbytes.optim import AdamW8bit

    return AdamW8bit


def set_hyperparameters(optimizer: torch.optim.Optimizer, *, lr: float, weight_decay: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr * group["lr_ratio"]
        group["weight_decay"] = weight_decay if group["decays"] else 0.0


def reset_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Forget all moments, as at the start of a run. DeepSpeed's ZeRO and bf16 wrappers hold the real one inside."""
    inner = getattr(optimizer, "optimizer", optimizer)
    inner.state.clear()
