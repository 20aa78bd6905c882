"""Which weights an engine that holds a model of its own must be given: names and shapes, checked while they pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from mmrl.errors import EngineError


@dataclass(frozen=True, slots=True)
class ExpectedWeights:
    """shapes: of all parameters by name, other names of the same one included. needed: the names that must be given."""

    shapes: dict[str, torch.Size]
    needed: frozenset[str]


def expected_weights(folder: Path, *, trust_remote_code: bool = False) -> ExpectedWeights:
    """Parameters of the model of a folder by its config.json; no weights are read and no memory is used."""
    from transformers import AutoConfig, AutoModelForImageTextToText

    options = {"trust_remote_code": trust_remote_code}
    config = AutoConfig.from_pretrained(folder, local_files_only=True, **options)
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config, **options)
    model.tie_weights()
    shapes = {name: parameter.shape for name, parameter in model.named_parameters(remove_duplicate=False)}
    return ExpectedWeights(shapes, frozenset(name for name, _ in model.named_parameters()))


class WeightCheck:
    """Lets the tensors through that fit, and in the end raises for all that did not."""

    def __init__(self, expected: ExpectedWeights) -> None:
        self._expected = expected
        self._missing = set(expected.needed)
        self._unknown: list[str] = []
        self._misshapen: list[str] = []

    def passing(self, named_tensors: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        """The tensors whose name and shape are known; nothing is copied."""
        for name, tensor in named_tensors:
            self._missing.discard(name)
            shape = self._expected.shapes.get(name)
            if shape is None:
                self._unknown.append(name)
            elif shape != tensor.shape:
                self._misshapen.append(
                    f"weight {name}: the trainer sent {tuple(tensor.shape)}, the engine has {tuple(shape)}"
                )
            else:
                yield name, tensor.detach()

    def finish(self) -> None:
        """Raise EngineError for the first tensor of another shape, or for the names that one side alone has."""
        if self._misshapen:
            raise EngineError(self._misshapen[0])
        if self._missing or self._unknown:
            raise EngineError(
                f"weight names differ: the engine also has {listed(self._missing)}, the trainer also has "
                f"{listed(self._unknown)}"
            )


def listed(names: Iterable[str]) -> str:
    """The first eight names, in order, and how many more there are.

    >>> listed([])
    'nothing'
    """
    names = sorted(names)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return shown or "nothing"
