"""`mmrl cache`: the commands that look at and tidy the pixel cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mmrl.commands.options import DEFAULT_CACHE, Config, Overrides, example

cache_app = typer.Typer(help="Look at and tidy the pixel cache.", no_args_is_help=True)
CacheDir = Annotated[Path, typer.Option("--dir", help="cache folder")]


@cache_app.command("ls", epilog=example("mmrl cache ls --dir .mmrl_cache"))
def cache_ls(directory: CacheDir = DEFAULT_CACHE) -> None:
    """List the entries by recipe, with counts and sizes."""
    from mmrl.data.cache_cli import ls

    raise typer.Exit(ls(directory))


@cache_app.command("verify", epilog=example("mmrl cache verify --dir .mmrl_cache"))
def cache_verify(directory: CacheDir = DEFAULT_CACHE) -> None:
    """Check the checksum and recipe of every entry."""
    from mmrl.data.cache_cli import verify

    raise typer.Exit(verify(directory))


@cache_app.command("pack", epilog=example("mmrl cache pack --shard-size 256MB"))
def cache_pack(
    directory: CacheDir = DEFAULT_CACHE,
    shard_size: Annotated[str, typer.Option(help="Bytes a shard takes, e.g. 256MB.")] = "256MB",
) -> None:
    """Put many small entries into few large files; runs read both alike and may go on meanwhile."""
    from mmrl.data.cache_cli import pack

    raise typer.Exit(pack(directory, shard_size=shard_size))


@cache_app.command("unpack", epilog=example("mmrl cache unpack"))
def cache_unpack(directory: CacheDir = DEFAULT_CACHE) -> None:
    """Make every packed entry a file of its own again."""
    from mmrl.data.cache_cli import unpack

    raise typer.Exit(unpack(directory))


@cache_app.command("push", epilog=example("mmrl cache push s3://bucket/cache"))
def cache_push(
    url: Annotated[str, typer.Argument(help="Object storage, as cache.remote names it.")],
    directory: CacheDir = DEFAULT_CACHE,
) -> None:
    """Upload the entries and shards that URL does not hold yet."""
    from mmrl.data.cache_cli import push

    raise typer.Exit(push(directory, url))


@cache_app.command("prune", epilog=example("mmrl cache prune 20GB"))
def cache_prune(
    size: Annotated[str, typer.Argument(help="Size to shrink to, e.g. 20GB; entries unused longest go first.")],
    directory: CacheDir = DEFAULT_CACHE,
) -> None:
    """Delete entries until the cache is no larger than SIZE."""
    from mmrl.data.cache_cli import prune

    raise typer.Exit(prune(directory, size=size))


@cache_app.command("explain", epilog=example("mmrl cache explain my.yaml --sample geo-17"))
def cache_explain(
    config: Config,
    overrides: Overrides = None,
    sample: Annotated[str | None, typer.Option(help="Only the media of the sample with this id.")] = None,
    level: Annotated[
        Literal["pixels", "features"], typer.Option(help="Entries of which level; for features the model is loaded.")
    ] = "pixels",
) -> None:
    """Say which media of CONFIG miss the cache, and why."""
    from mmrl.config.load import load_config

    loaded = load_config(config, overrides or ())
    from mmrl.data.cache_cli import explain

    raise typer.Exit(explain(loaded, sample=sample, level=level))
