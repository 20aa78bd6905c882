"""TieredStore: object storage with a local folder in front of it.

Reads come from the folder; what it lacks is fetched into it, whole, and read from there. Writes go to the folder and
from there to the storage. The folder is kept below a size: what has not been read for longest goes, but nothing that
was not yet uploaded and nothing this process has mapped. Another process that has mapped it keeps its memory.

    <folder>/pending/<key>    an entry that is not uploaded yet; the next run that writes uploads it
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mmrl.data.container import decode
from mmrl.data.mapping import Mapped, write_whole
from mmrl.data.remote import Remote
from mmrl.data.store import SUFFIX, EntryStore
from mmrl.errors import CacheCorruptError

_PENDING = "pending"

# What is evicted at once, as a share of the limit: so that listing the folder is rare.
_EVICTED_SHARE = 0.1
_TOUCH_EVERY_S = 60.0


class TieredStore(EntryStore):
    """An EntryStore whose folder is a cache of object storage.

    max_local_bytes: the folder is kept below it; None: it grows. Entries in shards of the folder count, and stay.
    Raises CacheRemoteError where the storage fails.
    """

    def __init__(self, folder: Path, remote: Remote, *, max_local_bytes: int | None = None) -> None:
        super().__init__(folder)
        self.remote, self.max_local_bytes = remote, max_local_bytes
        self.place = f"{folder} or {remote.url}"
        self._local_bytes: int | None = None
        self._used_s: dict[str, float] = {}
        self._in_use: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()
        self._looked_for_pending = False
        self._lock = threading.RLock()
        self._fetching: dict[str, threading.Lock] = {}

    def find(self, key: str) -> Mapped | None:
        """The entry, fetched first if need be. Raises CacheCorruptError, also for what was fetched."""
        mapped = super().find(key) or self._fetched(key)
        if mapped is not None:
            self._used(key, mapped)
        return mapped

    def write(self, key: str, blocks: Iterable[memoryview]) -> int:
        """Write an entry into the folder and upload it."""
        self._upload_pending()
        marker = self.folder / _PENDING / key
        write_whole(marker, ())
        size = super().write(key, blocks)
        self._grown(size, key)
        self._upload(key)
        return size

    def _fetched(self, key: str) -> Mapped | None:
        with self._lock:
            lock = self._fetching.setdefault(key, threading.Lock())
        with lock:
            mapped = self.find_loose(key)
            if mapped is None and self._fetch(key):
                mapped = self.find_loose(key)
        with self._lock:
            self._fetching.pop(key, None)
        return mapped

    def _fetch(self, key: str) -> bool:
        try:
            bytes_N = self._download(key)
        except CacheCorruptError:  # perhaps only on its way here
            bytes_N = self._download(key)
        if bytes_N is None:
            return False
        self._grown(write_whole(self.loose_path(key), [bytes_N.data]), key)
        return True

    def _download(self, key: str) -> np.ndarray | None:
        """The bytes of an entry, compared with their checksum."""
        bytes_N = self.remote.read_packed(key)
        if bytes_N is None:
            bytes_N = self.remote.read(_name(key))
        if bytes_N is not None:
            decode(f"{self.remote.url}/{_name(key)}", bytes_N, verify=True)
        return bytes_N

    def _upload_pending(self) -> None:
        """Upload what an earlier run could not."""
        if self._looked_for_pending:
            return
        self._looked_for_pending = True
        for marker in sorted((self.folder / _PENDING).glob("[0-9a-f]*")):
            self._upload(marker.name)

    def _upload(self, key: str) -> None:
        path = self.loose_path(key)
        with contextlib.suppress(FileNotFoundError):  # damaged and removed, or packed: `mmrl cache push` has those
            path.stat()
            self.remote.put(_name(key), path)
        (self.folder / _PENDING / key).unlink(missing_ok=True)

    def _used(self, key: str, mapped: Mapped) -> None:
        """Remember a use in the file's time of access, which all processes see; the time of writing stays."""
        now_s = time.time()
        self._in_use[key] = mapped.bytes_N
        if now_s - self._used_s.get(key, 0.0) > _TOUCH_EVERY_S:
            self._used_s[key] = now_s
            with contextlib.suppress(FileNotFoundError):  # packed
                info = os.stat(self.loose_path(key))  # noqa: PTH116
                os.utime(self.loose_path(key), ns=(time.time_ns(), info.st_mtime_ns))

    def _grown(self, size: int, key: str) -> None:
        if self.max_local_bytes is None:
            return
        with self._lock:
            if self._local_bytes is None:
                self._local_bytes = sum(item.size for item in self.items())
            else:
                self._local_bytes += size
            if self._local_bytes > self.max_local_bytes:
                self._local_bytes = self._evict(self.max_local_bytes, keep=key)

    def _evict(self, limit: int, *, keep: str) -> int:
        """Remove what was used longest ago until there is some room. Returns the bytes that are left."""
        items = sorted(self.items(), key=lambda item: max(item.last_use, self._used_s.get(item.key, 0.0)))
        left = sum(item.size for item in items)
        for item in items:
            if left <= limit * (1 - _EVICTED_SHARE):
                break
            pending = self.folder / _PENDING / item.key
            if item.packed or item.key == keep or item.key in self._in_use or pending.exists():
                continue
            item.where.unlink(missing_ok=True)
            self._used_s.pop(item.key, None)
            left -= item.size
        return left


def push(store: EntryStore, remote: Remote) -> tuple[int, int]:
    """Upload the entries and shards that the storage lacks. Returns how many files, and their bytes."""
    there = remote.names()
    files = [item.where for item in store.items() if not item.packed] + store.shards.paths()
    count = size = 0
    for path in files:
        name = path.relative_to(store.folder).as_posix()
        if name not in there:
            with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
                size += path.stat().st_size
                remote.put(name, path)
                count += 1
    return count, size


def _name(key: str) -> str:
    return f"{key[:2]}/{key}{SUFFIX}"
