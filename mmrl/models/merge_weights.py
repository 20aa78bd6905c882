"""Models of one architecture as one: a + sum over the others of weight * mask(layer) * (other - a). Streamed.

Neutral: an empty range gives a, the full range with weight 1 gives the other, both bit for bit. The formula for one
other model is that of the layer-range merging of "Frankenstein" analyses (abstract read).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from mmrl.errors import ConfigError
from mmrl.models.layers import LayerRanges, check_ranges, place_of
from mmrl.models.weight_files import WeightFiles, check_same_tensors


@dataclass(frozen=True)
class MergedPart:
    """What another model gives: its folder, its weight and the layers it is taken in."""

    folder: Path
    weight: float
    layers: LayerRanges


def merge_weights(base: Path, parts: Sequence[MergedPart], out: Path) -> dict[str, int]:
    """Write the merged model to `out`: weights in the base's files and types, all else copied from the base's folder.

    Sums are made in float32. One file's tensors are in memory at a time. Returns how many tensors were copied from the
    base, copied from another model, and mixed. ConfigError for models that do not fit each other, for ranges beyond
    their layers, and for an `out` that holds files already.
    """
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} holds files already; name another folder")
    with ExitStack() as held:
        first = held.enter_context(WeightFiles(base))
        others = [held.enter_context(WeightFiles(part.folder)) for part in parts]
        for part, other in zip(parts, others, strict=True):
            check_same_tensors(first, other)
            check_ranges(part.layers, first, where=f"--layers of {part.folder}")
        building = out.with_name(f".building-{out.name}")
        shutil.rmtree(building, ignore_errors=True)
        weights = shutil.ignore_patterns("*.safetensors")
        shutil.copytree(first.folder, building, ignore=weights)
        counts: dict[str, int] = {"base": 0, "other": 0, "mixed": 0}
        for file, names in first.files.items():
            tensors = {}
            for name in names:
                used = [(p.weight, o) for p, o in zip(parts, others, strict=True) if p.weight and _is_in(name, p)]
                tensors[name], kind = _merged(name, first, used)
                counts[kind] += 1
            save_file(tensors, building / file, metadata={"format": "pt"})
    if out.exists():
        out.rmdir()
    building.rename(out)
    return counts


def _is_in(name: str, part: MergedPart) -> bool:
    return place_of(name) in part.layers


def _merged(name: str, first: WeightFiles, used: Sequence[tuple[float, WeightFiles]]) -> tuple[Any, str]:
    """A tensor of the merged model and what was done for it. Whole numbers are no weights: the base's stay."""
    a = first.tensor(name)
    if not used or not a.is_floating_point():
        return a, "base"
    if len(used) == 1 and used[0][0] == 1.0:
        return used[0][1].tensor(name).to(a.dtype), "other"
    total = a.float()
    for weight, other in used:
        total = total + weight * (other.tensor(name).float() - a.float())
    return total.to(a.dtype), "mixed"
