"""Options of `mmrl compare-weights` and `mmrl merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmrl.commands.options import AsJson

COMPARE_WEIGHTS_EXAMPLES = ("mmrl compare-weights Qwen2.5-VL-3B-Instruct runs/my-run/checkpoints/latest --modules",)
MERGE_EXAMPLES = (
    "mmrl merge base tuned --out half-way",
    "mmrl merge base tuned --out late-layers --weights 1 --layers 24-35,others",
    "mmrl merge base math charts --out both --weights 0.5,0.3 --layers 0-17 --layers 18-35",
)


def compare_weights(
    one: Annotated[Path, typer.Argument(metavar="A", help="Model folder or checkpoint")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another one of the same architecture")],
    modules: Annotated[bool, typer.Option("--modules", help="A line for each module of each layer, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how far training moved each layer: size of the difference, relative to A, and cosine."""
    from mmrl.commands.weights import compare_weights_command

    raise typer.Exit(compare_weights_command(one, other, modules=modules, as_json=as_json))


def merge(
    models: Annotated[list[Path], typer.Argument(metavar="A B [C]...", help="Model folders or checkpoints")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    weights: Annotated[
        str | None, typer.Option(help="For each model but A how far to go from A to it, 0.5,0.3; default: the mean.")
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(help="Where: 0-7,vision:3,others, all or none; once, or for each model but A. Default: all."),
    ] = None,
) -> None:
    """Write A + weight * (B - A) over ranges of layers as a model folder."""
    from mmrl.commands.weights import merge_command

    raise typer.Exit(merge_command(models, out, weights=weights, layers=layers or ()))
