"""The tensors that training changes, by name: taken out, and put in for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch


def trained_parameters(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Name and parameter of all that has a gradient."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def trained_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies, on the CPU, of all parameters with a gradient."""
    return {name: parameter.detach().cpu().clone() for name, parameter in trained_parameters(model)}


@contextmanager
def swapped(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Within the block the named parameters have these values; nothing is copied, and the old values come back.

    Only for passes without gradient. The tensors lie on the model's device and have its type.
    """
    parameters = {name: parameter for name, parameter in model.named_parameters() if name in tensors}
    assert parameters.keys() == tensors.keys(), tensors.keys() - parameters.keys()
    kept = {name: parameter.data for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.data = tensors[name]
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.data = kept[name]
