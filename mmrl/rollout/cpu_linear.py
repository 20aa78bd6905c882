"""Products with a matrix kept as it was given, on a CPU: nearly as fast as with one that oneDNN has packed.

New weights can then be written straight into the matrix. `tests/bench/bench_weight_sync.py` measures both sides.
`with_cpu_linear` has the layers of a model do their products so.

Shape letters: M rows of x (tokens in the batch), K values of a row, N rows of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch.nn.functional import linear

# Below it (measured at 256 x 64) calling oneDNN costs more than it saves.
LEAST_VALUES = 1 << 16
# In between, oneDNN is faster with the matrix as the left factor: its N rows, not the few of x, are cut into blocks.
SWAPPED_ROWS = range(16, 129)


def cpu_linear(x: torch.Tensor, weight_NK: torch.Tensor, bias_N: torch.Tensor | None = None) -> torch.Tensor:
    """x W^T + b, like `torch.nn.functional.linear`, equal to it but for the order of additions.

    x: (..., K). Returns (..., N), contiguous. For inference: it has no gradient in float32.
    """
    if weight_NK.numel() < LEAST_VALUES:
        return linear(x, weight_NK, bias_N)
    x_MK = x.reshape(-1, x.shape[-1])
    if len(x_MK) in SWAPPED_ROWS:
        y_MN = _product(weight_NK, x_MK, None).t().contiguous()
        y_MN = y_MN if bias_N is None else y_MN.add_(bias_N)
    else:
        y_MN = _product(x_MK, weight_NK, bias_N)
    return y_MN.view(*x.shape[:-1], len(weight_NK))


@contextmanager
def with_cpu_linear(model: torch.nn.Module) -> Iterator[None]:
    """Within the block the plain linear layers of the model that are on a CPU and large enough compute by `cpu_linear`.
    Gradients must be off.
    """
    layers = [module for module in model.modules() if type(module) is torch.nn.Linear and _gains(module.weight)]
    for layer in layers:
        layer.forward = partial(_forward, layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _gains(weight_NK: torch.Tensor) -> bool:
    return weight_NK.device.type == "cpu" and weight_NK.is_floating_point() and weight_NK.numel() >= LEAST_VALUES


def _forward(layer: torch.nn.Linear, input: torch.Tensor) -> torch.Tensor:
    return cpu_linear(input, layer.weight, layer.bias)


def _product(x_MK: torch.Tensor, weight_NK: torch.Tensor, bias_N: torch.Tensor | None) -> torch.Tensor:
    """By oneDNN. torch takes it for bfloat16 by itself; for float32 it takes a slower library."""
    if x_MK.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        return torch.ops.mkldnn._linear_pointwise(x_MK, weight_NK, bias_N, "none", [], "")
    return linear(x_MK, weight_NK, bias_N)
