"""What the commands do, as functions: `from mmrl import train, preprocess, check, score`.

    from mmrl import train
    train("my.yaml", "stages.0.steps=50", resume=True)

Each takes the path of a YAML file and overrides, or a RunConfig made in Python, and returns the exit code of the
command; what a command prints as an error is raised as `mmrl.errors.MmrlError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from mmrl.config.schema import RunConfig

MediaChoice = Literal["all", "sample", "none"]
CacheLevel = Literal["pixels", "features"]


def load(config: str | Path | RunConfig, *overrides: str) -> RunConfig:
    """The checked configuration of a file, or the one given. Raises ConfigError for overrides of one given."""
    from mmrl.config.load import load_config
    from mmrl.errors import ConfigError

    if isinstance(config, str | Path):
        return load_config(Path(config), overrides)
    if overrides:
        raise ConfigError("overrides change a file's keys; a RunConfig made in Python is changed by model_copy")
    return config


def train(config: str | Path | RunConfig, *overrides: str, resume: bool = False, overwrite: bool = False) -> int:
    """`mmrl train`: 0, or 75 when SIGTERM ended the run with a checkpoint."""
    from mmrl.errors import ConfigError

    if resume and overwrite:
        raise ConfigError("resume continues a run and overwrite deletes it; give one of them")
    loaded = load(config, *overrides)
    from mmrl.training.run import train as run

    return run(loaded, resume=resume, overwrite=overwrite)


def preprocess(
    config: str | Path | RunConfig,
    *overrides: str,
    rehash: bool = False,
    workers: int | None = None,
    level: CacheLevel | None = None,
    shard: str | None = None,
    retry_quarantined: bool = False,
    ray: bool = False,
) -> int:
    """`mmrl preprocess`: 0, or 1 when a medium could not be stored.

    workers: at least 1; None: `data.decode_workers`. level: None: features where `cache.level` says so, else pixels.
    shard: `i/n` or `auto`, the part of the media that this call does. ray: decoders are Ray's.
    """
    from mmrl.errors import ConfigError

    if workers is not None and workers < 1:
        raise ConfigError(f"workers is {workers}; give 1 or more, or None for data.decode_workers")
    if level not in (None, *get_args(CacheLevel)):
        raise ConfigError(f"level is {level!r}; known: {', '.join(get_args(CacheLevel))}")
    # Asked for by the option as by the key: a model that trains its vision modules is refused.
    loaded = load(config, *overrides, *(["cache.level=features"] if level == "features" else ()))
    from mmrl.config.checks import located
    from mmrl.config.run_checks import check_run
    from mmrl.data.preprocess.run import Options
    from mmrl.data.preprocess.run import preprocess as run
    from mmrl.data.preprocess.shards import WHOLE, parse_shard

    check_run(located(loaded), training=False)
    chosen = level or ("features" if loaded.cache.level == "features" else "pixels")
    part = WHOLE if shard is None else parse_shard(shard)
    options = Options(rehash, workers, chosen, part, retry_quarantined=retry_quarantined, ray=ray)
    return run(loaded, options)


def check(config: str | Path | RunConfig, *overrides: str, media: MediaChoice = "sample") -> int:
    """`mmrl check`: 0, or 1 when something would stop a run."""
    from mmrl.errors import ConfigError, did_you_mean

    if media not in get_args(MediaChoice):
        known = ", ".join(get_args(MediaChoice))
        raise ConfigError(f"media is {media!r}; known: {known}{did_you_mean(str(media), get_args(MediaChoice))}")
    loaded = load(config, *overrides)
    from mmrl.data.check import check as run

    return run(loaded, media=media)


def plan(
    config: str | Path | RunConfig,
    *overrides: str,
    gpus: int | None = None,
    gpu_gb: float | None = None,
    rows: int | None = None,
    as_json: bool = False,
) -> int:
    """`mmrl check --plan`: 0 where the run fits, 1 where it does not. gpus, gpu_gb: None: of this machine."""
    loaded = load(config, *overrides)
    from mmrl.plan.command import plan_command

    return plan_command(loaded, gpus=gpus, gpu_gb=gpu_gb, rows=rows, as_json=as_json)


def score(file: str | Path, *, config: str | Path | None = None, out: str | Path | None = None) -> int:
    """`mmrl score`: 0, or 1 when a row could not be scored."""
    from mmrl.scoring.score_file import score_file

    return score_file(Path(file), config=Path(config) if config else None, out=Path(out) if out else None)
