"""Files written whole and read as mappings: what loose entries and shards have in common.

Shape letters: N bytes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from mmrl.errors import CacheCorruptError, CacheError

_READ_WHOLE = 64 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """The bytes of an entry.

    where: how messages name it. bytes_N: a private mapping, not a copy: nothing a process does to it reaches the file.
    Entries of one shard share a mapping. stamp: changes when other bytes take the entry's place.
    """

    where: str
    bytes_N: np.ndarray
    stamp: tuple[int, ...]


def temporary_files(folder: Path) -> Iterator[Path]:
    """Files that writers are writing, or died writing."""
    return folder.glob("*/.*.tmp")


def read_file(name: str) -> Mapped:
    """A whole file, mapped. Raises FileNotFoundError, or CacheError when it cannot be read.

    A small one is read into memory: the copy costs less than the page faults of a mapping.
    """
    try:
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CacheError(f"{name}: cannot be read: {error.strerror}") from error
    try:
        info = os.fstat(handle)
        if info.st_size <= _READ_WHOLE:
            buffer = bytearray(info.st_size)
            bytes_N = np.frombuffer(buffer, np.uint8)[: os.readv(handle, [buffer])]
        else:
            bytes_N = map_file(name, info.st_size)
    finally:
        os.close(handle)
    return Mapped(name, bytes_N, (info.st_ino, info.st_mtime_ns))


def map_file(name: str, size: int) -> np.ndarray:
    """A file's first `size` bytes as a private mapping, which holds no file descriptor.

    Raises FileNotFoundError, or CacheCorruptError when it is shorter or cannot be mapped.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    try:
        return torch.from_file(name, shared=False, size=size, dtype=torch.uint8).numpy()
    except RuntimeError as error:
        if not os.path.exists(name):  # noqa: PTH110  pruned by another process since its size was asked
            raise FileNotFoundError(name) from error
        raise CacheCorruptError(f"{name}: cannot be mapped ({str(error).splitlines()[0]})") from error


def write_whole(path: Path, blocks: Iterable[memoryview]) -> int:
    """Write a file whole or not at all: temporary name, sync, rename. Returns its bytes. Raises CacheError."""
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    size = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb", buffering=0) as file:
            for block in blocks:
                size += len(block)
                while len(block):
                    block = block[file.write(block) :]
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise CacheError(f"{path}: cannot write the cache entry: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # there is nothing to remove after the rename
            temporary.unlink()
    return size


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
