"""EntryStore: the bytes of cache entries by key, in files of their own or packed into shards, read alike.

    <folder>/ab/<key>.safetensors     an entry by itself
    <folder>/shards/<name>.shard      many entries behind each other, and their index (shard.py)

What the bytes mean is not known here: an entry is a container (container.py). Keys are 64 hex digits and name the
content, so two stored entries of one key are equal unless one is damaged; the loose one is taken, being the later.
Entries appear by rename, whole. Removing a file leaves those who have it mapped their memory.

Shape letters: N bytes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from mmrl.errors import CacheCorruptError, CacheError

SUFFIX = ".safetensors"


@dataclass(frozen=True, slots=True, eq=False)
class Mapped:
    """The bytes of an entry, mapped, not copied.

    where: how messages name it. bytes_N: a private mapping: nothing a process does to it reaches the file. Entries of
    one shard share a mapping. stamp: changes when other bytes take the entry's place.
    """

    where: str
    bytes_N: np.ndarray
    stamp: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry as it is listed. size: bytes it takes. last_use: seconds since 1970; of a packed one its shard's."""

    key: str
    where: Path
    size: int
    last_use: float


class EntryStore:
    """Entries of one kind in a folder, which need not exist. Safe to use from several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._name = str(folder)
        self._unsynced: set[Path] = set()

    def find(self, key: str) -> Mapped | None:
        """The entry, or None when there is none. Raises CacheCorruptError for a file that cannot be mapped."""
        name = f"{self._name}/{key[:2]}/{key}{SUFFIX}"
        try:
            info = os.stat(name)  # noqa: PTH116  a Path costs more than the call
            return Mapped(name, map_file(name, info.st_size), (info.st_ino, info.st_mtime_ns))
        except FileNotFoundError:
            return None

    def write(self, key: str, blocks: Iterable[memoryview]) -> int:
        """Write an entry whole or not at all: temporary name, sync, rename. Returns its bytes. Raises CacheError.

        `sync` makes the new name survive a power cut: without it a rebuild is lost, never half an entry there.
        """
        path = self.loose_path(key)
        size = write_whole(path, blocks)
        self._unsynced.add(path.parent)  # now that it exists: any thread may sync it
        return size

    def sync(self) -> None:
        """Make the names written so far survive a power cut."""
        with contextlib.suppress(KeyError):  # other threads take from the same set
            while True:
                sync_folder(self._unsynced.pop())

    def items(self) -> Iterator[Stored]:
        """All entries, each once, in the order of their keys."""
        for path in sorted(self.folder.glob(f"*/*{SUFFIX}")):
            with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
                info = path.stat()
                # File systems mounted without access times keep the time of writing.
                yield Stored(path.stem, path, info.st_size, max(info.st_atime, info.st_mtime))

    def remove(self, keys: Collection[str]) -> None:
        """Forget entries; those that are not there are passed over."""
        for key in keys:
            self.loose_path(key).unlink(missing_ok=True)

    def loose_path(self, key: str) -> Path:
        """Where an entry by itself lies, or would."""
        return self.folder / key[:2] / f"{key}{SUFFIX}"

    def remove_stale_temporaries(self, *, older_than_s: float = 600.0) -> int:
        """Remove what writers that were killed left behind; a living writer's file is never that old. Returns bytes."""
        freed = 0
        for path in temporary_files(self.folder):
            with contextlib.suppress(FileNotFoundError):  # its writer has just renamed it
                info = path.stat()
                if time.time() - info.st_mtime >= older_than_s:
                    path.unlink()
                    freed += info.st_size
        return freed


def temporary_files(folder: Path) -> Iterator[Path]:
    """Files that writers are writing, or died writing."""
    return folder.glob("*/.*.tmp")


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
