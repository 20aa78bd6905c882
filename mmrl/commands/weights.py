"""`mmrl compare-weights` and `mmrl merge`: how two models' weights differ, and several as one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mmrl.errors import ConfigError
from mmrl.models.differences import compare_weights
from mmrl.models.layers import read_ranges
from mmrl.models.merge_weights import MergedPart, merge_weights
from mmrl.models.weight_files import WeightFiles


def compare_weights_command(one: Path, other: Path, *, modules: bool, as_json: bool) -> int:
    """Print how far each layer (with `modules` each module of it, too) lies from the other model's. Returns 0."""
    with WeightFiles(one) as first, WeightFiles(other) as second:
        rows = compare_weights(first, second)
    if as_json:
        print(json.dumps(rows, indent=1))
        return 0
    table = Table("layer", "module", box=None)
    for column in ("parameters", "size", "relative", "cosine"):
        table.add_column(column, justify="right")
    for row in rows:
        if modules or not row["module"]:
            shown = (f"{row['parameters']:,}", *(_number(row[key]) for key in ("size", "relative", "cosine")))
            table.add_row(row["layer"], row["module"], *shown)
    Console().print(table)
    return 0


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 0.99 else f"{value:.6f}"


def merge_command(models: Sequence[Path], out: Path, *, weights: str | None, layers: Sequence[str]) -> int:
    """Write the merge of the models to `out` and say what it holds. Returns 0.

    weights: numbers with commas, one for each model but the first; None: the mean of all. layers: for each of these
    models its ranges, or one choice for all; none: all layers.
    """
    base, *others = models
    if not others:
        raise ConfigError("one model is nothing to merge; name two or more")
    numbers = [1 / len(models)] * len(others) if weights is None else _numbers(weights, count=len(others))
    chosen = list(layers) or ["all"]
    if len(chosen) not in (1, len(others)):
        fact = f"--layers is given {len(chosen)} times for {len(others)} models besides the first"
        raise ConfigError(f"{fact}; give it once for all of them, or once for each")
    chosen = chosen * len(others) if len(chosen) == 1 else chosen
    ranges = [read_ranges(text.split(","), where="--layers") for text in chosen]
    parts = [MergedPart(*part) for part in zip(others, numbers, ranges, strict=True)]
    counts = merge_weights(base, parts, out)
    print(f"{out}: {counts['mixed']} tensors mixed, {counts['other']} from another model, {counts['base']} of {base}")
    return 0


def _numbers(text: str, *, count: int) -> list[float]:
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--weights: {text!r} are no numbers; write such as 0.5,0.25") from error
    if len(numbers) != count:
        raise ConfigError(
            f"--weights has {len(numbers)} numbers for {count} models besides the first; give one for each"
        )
    return numbers
