"""Where a model lies: a folder, or a hub id whose files are in, or come into, the hub's local cache.

With HF_HUB_OFFLINE=1 nothing is fetched: what is missing is an error with the command that fetches it. The cache is
where huggingface_hub has it (HF_HOME, HF_HUB_CACHE).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmrl.config.schema import ModelSection
from mmrl.errors import ConfigError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Everything but the weights: all that preprocessing and checking need of a model.
SETTINGS_FILES = ("*.json", "*.jinja", "*.txt")
WEIGHT_FILES = ("*.safetensors",)
_SINGLE_FILES = ("model.safetensors", "adapter_model.safetensors", "pytorch_model.bin")
_INDEX = "model.safetensors.index.json"


def is_hub_id(path: str) -> bool:
    """Whether a path is spelled like ORG/NAME.

    >>> is_hub_id("Qwen/Qwen2.5-VL-3B-Instruct"), is_hub_id("./models/mine"), is_hub_id("/models/mine")
    (True, False, False)
    """
    return _HUB_ID.fullmatch(path) is not None


def model_folder(section: ModelSection, *, weights: bool) -> Path:
    """The folder with the model's files: `model.path` itself, or the snapshot of the hub id at `model.revision`.

    weights: whether the weight files are needed too. Raises ConfigError, naming the command that fetches it, for a
    hub id that is not in the cache and cannot be fetched, and for weight files that are not there.
    """
    folder = Path(section.path)
    if is_hub_id(section.path) and not folder.exists():
        folder = _snapshot(section.path, section.revision, weights=weights)
    if weights:
        _check_weight_files(folder)
    return folder


def pinned(section: ModelSection) -> ModelSection:
    """The section with the commit that a branch or tag stands for now, so that a later run reads the same files."""
    if not is_hub_id(section.path) or Path(section.path).exists():
        return section
    return section.model_copy(update={"revision": commit_of(model_folder(section, weights=False))})


def commit_of(folder: Path) -> str | None:
    """The commit of a snapshot folder of the hub's cache; None for any other folder."""
    return folder.name if folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name) else None


@contextmanager
def readable_model(folder: Path) -> Iterator[None]:
    """Turn what transformers raises for damaged files of a model folder into ConfigError naming the folder."""
    from safetensors import SafetensorError

    try:
        yield
    except ConfigError:
        raise
    except (OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"{folder}: damaged or incomplete ({reason}); {remedy(folder)}") from error


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Within the block transformers shows no bars of its own; they would tear ours apart."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def remedy(folder: Path) -> str:
    """What to do about a file that a model folder lacks.

    >>> remedy(Path("/models/mine"))
    'is this a model folder?'
    """
    commit = commit_of(folder)
    if commit is None:
        return "is this a model folder?"
    hub_id = "/".join(folder.parent.parent.name.split("--")[1:])
    return f"fetch it with `{fetch_command(hub_id, commit)}`"


def fetch_command(hub_id: str, revision: str | None) -> str:
    return f"hf download {hub_id}" + (f" --revision {revision}" if revision else "")


def _snapshot(hub_id: str, revision: str | None, *, weights: bool) -> Path:
    from huggingface_hub import constants, snapshot_download

    patterns = [*SETTINGS_FILES, *(WEIGHT_FILES if weights else ())]
    offline = constants.HF_HUB_OFFLINE
    try:
        folder = snapshot_download(hub_id, revision=revision, allow_patterns=patterns, local_files_only=offline)
    except OSError as error:  # not in the cache, no connection, no such repository or revision, no access
        at = f" at revision {revision!r}" if revision else ""
        why = "HF_HUB_OFFLINE is set" if offline else f"it could not be fetched ({type(error).__name__})"
        raise ConfigError(
            f"model.path {hub_id!r}: there is no such folder, the hub cache does not hold it whole{at}, and {why}; "
            f"fetch it with `{fetch_command(hub_id, revision)}`, or name a folder"
        ) from error
    return Path(folder)


def _check_whole(path: Path) -> None:
    """ConfigError for a safetensors file that is shorter or longer than its header says; only the header is read."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        try:
            header = json.loads(file.read(length)) if 8 + length <= size else {}
            ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError):
            ends = []
    if size != 8 + length + max(ends, default=0):
        raise ConfigError(f"{path}: damaged or cut short ({size} bytes); {remedy(path.parent)}")


def _check_weight_files(folder: Path) -> None:
    index = folder / _INDEX
    if index.is_file():
        shards = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        missing = [name for name in shards if not (folder / name).is_file()]
    else:
        missing = [] if any((folder / name).is_file() for name in _SINGLE_FILES) else [_SINGLE_FILES[0]]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConfigError(f"{folder}: {missing[0]}{more} is missing; {remedy(folder)}")
    for path in folder.glob("*.safetensors"):
        _check_whole(path)
