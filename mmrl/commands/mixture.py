"""`mmrl mixture fit | suggest | seeds`: which mixture of datasets to train on, from runs of some mixtures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from mmrl.commands.options import AsJson, example

mixture_app = typer.Typer(help="Which mixture of datasets to train on, from runs of some mixtures (MoDoMoDo).")


@mixture_app.command(epilog=example("mmrl mixture seeds coco,geoqa,sat"))
def seeds(datasets: Annotated[str, typer.Argument(help="Names of datasets, with commas between")]) -> None:
    """Print the mixtures to run first: each dataset alone, all but one, and all alike; one JSON line each."""
    from mmrl.commands.benchmarks import split_names
    from mmrl.data.mixture_fit import seed_mixtures
    from mmrl.errors import ConfigError

    names = split_names(datasets)
    if len(set(names)) < len(names) or len(names) < 2:
        raise ConfigError(f"a mixture is of two different datasets or more; given: {datasets!r}")
    for mixture in seed_mixtures(names):
        typer.echo(json.dumps({"weights": {name: round(share, 6) for name, share in mixture.items()}}))


@mixture_app.command(epilog=example("mmrl mixture fit runs.jsonl --out mixture.json --scores mmstar,mathvista"))
def fit(
    runs: Annotated[Path, typer.Argument(help='JSONL: {"weights": {dataset: weight}, "scores": {benchmark: score}}')],
    out: Annotated[Path, typer.Option(help="Where to write the surrogate.")] = Path("mixture.json"),
    scores: Annotated[str, typer.Option(help="Benchmarks whose mean counts, with commas; default: all.")] = "",
    form: Annotated[Literal["quadratic", "linear"], typer.Option(help="Of the surrogate.")] = "quadratic",
    ridge: Annotated[float, typer.Option(min=0.0, help="0: least squares of least norm.")] = 0.0,
) -> None:
    """Fit the score of a run as a function of its mixture."""
    from mmrl.commands.benchmarks import split_names
    from mmrl.data.mixture_fit import as_json, fitted, read_records

    records = read_records(runs)
    surrogate = fitted(records, scores=split_names(scores), form=form, ridge=ridge)
    out.write_text(json.dumps(as_json(surrogate), indent=2) + "\n", encoding="utf-8")
    worst = abs(surrogate.residuals_R).max()
    typer.echo(f"{out}: {form} surrogate of {len(records)} runs over {', '.join(surrogate.names)}")
    typer.echo(f"largest residual {worst:.4f}")
    if len(records) < len(surrogate.names) + 1 + (form == "quadratic") * len(surrogate.names):
        typer.echo("few runs for this form: trust its best point only near the mixtures that were run", err=True)


@mixture_app.command(epilog=example("mmrl mixture suggest mixture.json"))
def suggest(
    surrogate: Annotated[Path, typer.Argument(help="What `mmrl mixture fit` wrote")], as_json: AsJson = False
) -> None:
    """Print the mixture of the highest fitted score, as weights for data.train."""
    from mmrl.data.mixture_fit import read_surrogate

    fit_ = read_surrogate(surrogate)
    best = fit_.best()
    shares = {name: round(float(share), 4) for name, share in zip(fit_.names, best, strict=True)}
    predicted, uniform = fit_.score(best), fit_.score([1 / len(best)] * len(best))
    if as_json:
        typer.echo(json.dumps({"weights": shares, "predicted": predicted, "uniform": uniform}))
        return
    for name, share in shares.items():
        typer.echo(f"{name}: {share:.4f}" + ("" if share else "  (leave it out of data.train)"))
    typer.echo(f"predicted {predicted:.4f}; all alike {uniform:.4f}")
