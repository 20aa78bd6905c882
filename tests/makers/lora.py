"""Tiny models with LoRA adapters, and log-probs of a picture and a clip under any model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from makers.tiny_models import Kind, tiny_model_dir
from makers.vlm import tiny_vlm
from transformers import PreTrainedModel

from mmrl.config.schema import ModelSection
from mmrl.models.logprobs import LogprobModule
from mmrl.models.packing import group_row, pack

GROUPS = ("vision_tower", "projector", "language_model")


def lora_section(kind: Kind, path: Path | str | None = None, **changes: Any) -> ModelSection:
    """A tiny model with adapters on every linear layer of every group; changes of `lora` are merged in."""
    lora = {"rank": 4, "alpha": 8.0, "targets": GROUPS, **changes.pop("lora", {})}
    return ModelSection.model_validate(
        {"path": str(path or tiny_model_dir(kind)), "dtype": "float32", "lora": lora, **changes}
    )


def disturb(model: torch.nn.Module) -> None:
    """Move every trained tensor: a fresh adapter changes nothing, and half of it has no gradient."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)


def media_logprobs(model: Any, kind: Kind) -> torch.Tensor:
    """Log-probs of two completions after a picture and of two after a clip, as a training step takes them.

    model: a transformers model, or whatever takes a micro-batch as a LogprobModule does.
    """
    tiny = tiny_vlm(kind)
    rows = [
        group_row(tiny.prompt([5, 6], tiny.image(seed=0), [7]), [[20, 21, 22], [23]], [0, 1]),
        group_row(tiny.prompt([5], tiny.clip(seed=1), [8, 9]), [[24], [25, 26]], [2, 3]),
    ]
    micro = pack(rows, tiny.processor)
    options = {"temperature": 1.0, "banned_ids": tiny.processor.banned_ids, "chunk": 4}
    if isinstance(model, PreTrainedModel):
        model = LogprobModule(model)
    return model(micro, tiny.processor, **options).logprobs_L
