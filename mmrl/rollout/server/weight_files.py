"""Weights on their way from the trainer to servers of the same machine: files in shared memory, gone once read.

A file holds a part of the weights as safetensors. Its name is drawn, its mode is 0600, and only names of this form are
opened by a server, so a request cannot make it read anything else.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mmrl.errors import EngineError

FOLDER = Path("/dev/shm")
_NAME = re.compile(r"mmrl-weights-(\d+)-[0-9a-f]{32}\.safetensors")


def machine() -> str:
    """Equal for processes that see the same shared memory: the boot of the kernel and the mounted folder."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}:{FOLDER.stat().st_dev if FOLDER.is_dir() else 'none'}"


def has_room(num_bytes: int) -> bool:
    """Whether shared memory takes that much; containers are often given 64 MB of it."""
    return FOLDER.is_dir() and shutil.disk_usage(FOLDER).free > num_bytes + num_bytes // 8


@contextmanager
def weight_file(tensors: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """The name of a file with these tensors, within the block."""
    path = FOLDER / f"mmrl-weights-{os.getpid()}-{secrets.token_hex(16)}.safetensors"
    try:
        # Written beside its name with mode 0600, then renamed.
        save_file(dict(tensors), path)
        yield path.name
    except SafetensorError as error:
        raise EngineError(f"{path}: weights cannot be written to shared memory ({error})") from error
    finally:
        path.unlink(missing_ok=True)


def read_weight_file(name: str) -> dict[str, torch.Tensor]:
    """The tensors of a file, mapped: they stay readable when it is removed. EngineError for any other name or owner."""
    path = FOLDER / name
    if _NAME.fullmatch(name) is None:
        raise EngineError(f"{name!r} is not the name of a file of weights")
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            raise EngineError(f"{path}: not a file of this user")
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise EngineError(f"{path}: weights cannot be read ({error})") from error


def remove_left_files() -> None:
    """Remove the files of trainers that were killed while they sent weights."""
    for path in FOLDER.glob("mmrl-weights-*") if FOLDER.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and not Path(f"/proc/{match[1]}").exists() and path.stat().st_uid == os.getuid():
            path.unlink(missing_ok=True)
