"""How far training moved each layer and module: sizes of the difference of two models' weights.

    size = ||B - A||    relative = ||B - A|| / ||A||    cosine = A B / (||A|| ||B||)

over all parameters of a layer (or of one module of it) as one vector, in float64. After the layer-wise study of
"Frankenstein" analyses (abstract read; formulas are the plain norms).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mmrl.models.layers import Place, place_of
from mmrl.models.weight_files import WeightFiles, check_same_tensors


@dataclass
class Sums:
    """Sums of squares and products over the parameters of one place."""

    count: int = 0
    difference: float = 0.0
    first: float = 0.0
    second: float = 0.0
    product: float = 0.0

    def add(self, a: Any, b: Any) -> None:
        """Add one tensor of each model."""
        a, b = a.double().flatten(), b.double().flatten()
        self.count += a.numel()
        self.difference += float((b - a).square().sum())
        self.first += float(a.square().sum())
        self.second += float(b.square().sum())
        self.product += float(a @ b)

    def row(self) -> dict[str, float | int | None]:
        """The measures. relative and cosine: None where a model's part is 0."""
        size, norm = math.sqrt(self.difference), math.sqrt(self.first)
        both = norm * math.sqrt(self.second)
        return {
            "parameters": self.count,
            "size": size,
            "relative": size / norm if norm else None,
            "cosine": (1.0 if not self.difference else min(1.0, self.product / both)) if both else None,
        }


def compare_weights(one: WeightFiles, other: WeightFiles) -> list[dict[str, Any]]:
    """A row per layer and one per module of each, in the order of layers; the first is of the whole model.

    Two tensors are in memory at a time. ConfigError for models of different tensors.
    """
    check_same_tensors(one, other)
    sums: dict[tuple[Place | str, str], Sums] = {}
    for name in one:
        place = place_of(name)
        a, b = one.tensor(name), other.tensor(name)
        for key in (("whole model", ""), (Place(place.part, place.layer, ""), ""), (place, place.module)):
            sums.setdefault(key, Sums()).add(a, b)
    return [{"layer": layer, "module": module, **sums[key].row()} for key, layer, module in _ordered(sums)]


def _ordered(sums: dict[tuple[Place | str, str], Sums]) -> Iterator[tuple[tuple[Place | str, str], str, str]]:
    def order(key: tuple[Place | str, str]) -> tuple[Any, ...]:
        place, module = key
        if isinstance(place, str):
            return (0, "", 0, "")
        return (2, "", 0, module) if place.layer is None else (1, place.part, place.layer, module)

    for key in sorted(sums, key=order):
        place, module = key
        yield key, place if isinstance(place, str) else place.name, module
