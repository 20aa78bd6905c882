"""An exponential moving average of the weights that are trained, beside them: validated and exported in their place.

average <- decay * average + (1 - decay) * weights        after every batch of prompts, in float32
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from mmrl.errors import CheckpointError
from mmrl.models.trained import swapped, trained_parameters

EMA_FILE = "ema.safetensors"
AVERAGED = "model_ema"
"""Model folder of the averages, beside the `model` of a checkpoint."""


class Ema:
    """The average of a model's trained weights; it lies on the model's device and starts at its present weights."""

    def __init__(self, model: torch.nn.Module, *, decay: float) -> None:
        self.decay = decay
        self._averages: dict[str, torch.Tensor] = {}
        self.restart(model)

    def restart(self, model: torch.nn.Module) -> None:
        """Forget the past, as at the beginning of a stage."""
        self._averages = {name: p.detach().float().clone() for name, p in trained_parameters(model)}

    @torch.no_grad()
    def update(self, model: torch.nn.Module) -> None:
        for name, parameter in trained_parameters(model):
            self._averages[name].lerp_(parameter.float(), 1 - self.decay)

    @contextmanager
    def applied(self, model: torch.nn.Module) -> Iterator[None]:
        """Within the block the model has the averages as its weights, in its own type."""
        types = {name: parameter.dtype for name, parameter in trained_parameters(model)}
        with swapped(model, {name: average.to(types[name]) for name, average in self._averages.items()}):
            yield

    def save(self, checkpoint: Path) -> None:
        save_file({name: average.cpu() for name, average in self._averages.items()}, checkpoint / EMA_FILE)

    def load(self, checkpoint: Path) -> None:
        """Continue from a checkpoint. One that was written without an average leaves it at the present weights."""
        path = checkpoint / EMA_FILE
        if not path.is_file():
            return
        saved = load_file(path)
        if saved.keys() != self._averages.keys():
            raise CheckpointError(f"{path}: averages of other weights than are trained; set train.ema_decay to null")
        for name, average in self._averages.items():
            average.copy_(saved[name])
