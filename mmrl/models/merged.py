"""A model's weights as its base has them: adapters added in, names without a trace of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

_BASE, _WHOLE = ".base_layer.", ".modules_to_save."


@torch.no_grad()
def merged_parameters(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of every parameter of the base model; only the one at hand is held merged, in the base's type.

    `q_proj.base_layer.weight` W with LoRA matrices A, B and scale s comes out as `q_proj.weight`, W + s B A summed in
    float32. A module trained whole (`modules_to_save`) comes out in the place of the original.
    """
    modules = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        owner, found, leaf = name.partition(_BASE)
        if found:
            yield f"{owner}.{leaf}", _with_adapters(modules[owner], parameter) if leaf == "weight" else parameter
        elif _WHOLE in name:
            owner, _, rest = name.partition(_WHOLE)
            yield f"{owner}.{rest.partition('.')[2]}", parameter
        elif ".lora_" not in name and ".original_module." not in name:
            yield name, parameter


def _with_adapters(layer: Any, weight: torch.Tensor) -> torch.Tensor:
    total = weight.float()
    for adapter in layer.active_adapters:
        total = total + layer.get_delta_weight(adapter).float()
    return total.to(weight.dtype)
