"""The run folder: what a run leaves behind, and the checks before one is used again."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmrl.algorithms.hook_order import hook_order
from mmrl.config.load import write_resolved
from mmrl.config.schema import RunConfig
from mmrl.data.templates import template_record
from mmrl.errors import ConfigError
from mmrl.training.checkpoint import find_checkpoints
from mmrl.training.distributed import LAUNCHER
from mmrl.training.resume import changed_keys

# These belong to steps; without a checkpoint there is no step they could belong to.
LOGS = ("metrics.jsonl", "rollouts.jsonl", "skipped.jsonl")
STEP_FOLDERS = ("tensorboard", "reference", "evaluations")
LOCK = ".lock"
_VERSIONED = ("mmrl", "torch", "torchvision", "transformers", "deepspeed", "av", "decord", "numpy", "safetensors")


def open_run_folder(config: RunConfig, *, resume: bool, overwrite: bool = False) -> tuple[Path, list[str]]:
    """Create or reopen `out_dir/name`. Returns the folder and, on resume, the keys that changed since it was written.

    ConfigError when something was trained in the folder and neither resume nor overwrite was asked for. What a run
    left that ended before its first step is in nobody's way.
    """
    folder = Path(config.out_dir) / config.name
    resolved = folder / "resolved.yaml"
    changes: list[str] = []
    if resolved.is_file() and overwrite:
        _empty(folder)
    elif resolved.is_file() and not resume and has_trained(folder):
        raise ConfigError(
            f"{folder} already holds a run; continue it with resume (--resume), start over with overwrite "
            "(--overwrite), or give this one another name (name=...)"
        )
    elif resolved.is_file() and resume:
        changes = changed_keys(resolved, config)
    folder.mkdir(parents=True, exist_ok=True)
    if not find_checkpoints(folder):
        for log in LOGS:
            (folder / log).unlink(missing_ok=True)
        for name in STEP_FOLDERS:
            shutil.rmtree(folder / name, ignore_errors=True)
    write_resolved(config, resolved)
    _write_json(folder / "templates.json", template_record(config))
    _write_json(folder / "hooks.json", hook_order(config))
    _write_json(folder / "environment.json", environment())
    return folder, changes


def command_to_go_on(folder: Path, *, processes: int = 1, flag: str = "--resume") -> str:
    """The shell command that takes up the run of a folder again, from its newest checkpoint, on the machines that it
    was launched on.

    >>> command_to_go_on(Path("runs/mine"), processes=2)
    'mmrl launch --nproc 2 train runs/mine/resolved.yaml --resume'
    """
    here = ["launch", "--nproc", str(processes)] if processes > 1 else []
    launcher = json.loads(os.environ[LAUNCHER]) if LAUNCHER in os.environ else here
    return shlex.join(["mmrl", *launcher, "train", str(folder / "resolved.yaml"), flag])


def has_trained(folder: Path) -> bool:
    """Whether a run folder holds a checkpoint or the metrics of a finished step."""
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else ()
    return bool(find_checkpoints(folder)) or any(line and not line.startswith('{"step": 0,') for line in lines)


@contextmanager
def only_run_in(folder: Path) -> Iterator[None]:
    """Hold a run folder for this run; ConfigError while another run trains in it. A killed process holds nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"{folder}: another process is training in this run folder; wait for it, or rename this one (name=...)"
            ) from error
        yield


def is_running(folder: Path) -> bool:
    """Whether a process holds the run folder."""
    if not (folder / LOCK).is_file():
        return False
    with (folder / LOCK).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _empty(folder: Path) -> None:
    """Remove what a run left, except its lock, which is held."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def environment() -> dict[str, Any]:
    """Versions, platform and the state of the source tree."""
    return {
        "versions": {name: _version(name) for name in _VERSIONED},
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "git": _git_state(Path(__file__).resolve().parent),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git_state(folder: Path) -> dict[str, Any] | None:
    """Commit and whether files differ from it; None outside a checkout."""
    try:
        commit = subprocess.run(
            ["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        dirty = subprocess.run(
            ["git", "-C", folder, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "dirty": bool(dirty.strip())}


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
