"""Options of `mmrl search-weights`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmrl.commands.options import Config, Overrides

SEARCH_WEIGHTS_EXAMPLES = (
    "mmrl search-weights my.yaml --weight qa/format=0.02:1 --weight qa/length=0.01:0.5 --out search stages.0.steps=30",
)


def search_weights(
    config: Config,
    out: Annotated[Path, typer.Option(help="Folder of the search; one that was begun goes on.")],
    weight: Annotated[list[str], typer.Option(metavar="TASK/PART=LOW:HIGH", help="A weight and its range.")],
    overrides: Overrides = None,
    score: Annotated[str, typer.Option(help="Metric whose last value a trial is worth.")] = "val/mean",
    trials: Annotated[int, typer.Option(min=1, help="Weights to try, those of CONFIG first.")] = 12,
    population: Annotated[int, typer.Option(min=1, help="Trials of a generation; half of them are parents.")] = 4,
    sigma: Annotated[float, typer.Option(min=0.0, help="Width of a change, of the logarithm.")] = 0.5,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each trial; its score is their mean.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
) -> None:
    """Try other weights of rewards in short runs, evolving those that score best."""
    from mmrl.commands.search_weights import Search, search_weights_command

    search = Search(
        config=config,
        overrides=tuple(overrides or ()),
        ranges=tuple(weight),
        score=score,
        out=out,
        trials=trials,
        population=population,
        sigma=sigma,
        seeds=seeds,
        seed=seed,
    )
    raise typer.Exit(search_weights_command(search))
