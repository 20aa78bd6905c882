"""Object storage below a store: entries and shards by name, through fsspec (`s3://`, `gs://`, `file://`, ...).

The layout is that of the folder: `<url>/pixels/ab/<key>.safetensors` and `<url>/pixels/shards/*.shard`. What is there
never changes, so writing something twice is the same as writing it once, and readers see whole objects only: stores
that put objects atomically are written to directly, others under a temporary name that is then moved.

Shape letters: N bytes.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import fsspec.core
import numpy as np

from mmrl.data.shard import SHARD_SUFFIX, ShardIndex, read_index
from mmrl.data.shards import FOLDER as SHARDS
from mmrl.data.shards import merge
from mmrl.errors import CacheRemoteError

TRIES = 4
FIRST_WAIT_S = 0.25
"""Before the second try; each further one waits twice as long."""

_LIST_EVERY_S = 30.0
_PUT_IS_ATOMIC = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "memory"})
# Trying again cannot help.
_FINAL = (PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
Result = TypeVar("Result")


class Remote:
    """The entries of one level in object storage. Safe to use from several threads.

    url: of the whole cache. level: `pixels`, ... Raises CacheRemoteError where nothing can open such a URL.
    """

    def __init__(self, url: str, level: str) -> None:
        if not url.strip():
            raise CacheRemoteError("cache.remote is empty; name a URL such as s3://bucket/cache, or null")
        self.url = f"{url.rstrip('/')}/{level}"
        try:
            self._fs, self._root = fsspec.core.url_to_fs(self.url, use_listings_cache=False, skip_instance_cache=True)
        except (ValueError, ImportError, OSError) as error:
            raise CacheRemoteError(f"cache.remote {url}: {error}") from error
        protocol = self._fs.protocol
        self._is_atomic = bool(_PUT_IS_ATOMIC & set([protocol] if isinstance(protocol, str) else protocol))
        self._indices: dict[str, ShardIndex] = {}
        self._merged = merge([])
        self._listed_s = -1e9
        self._lock = threading.Lock()

    def read(self, name: str) -> np.ndarray | None:
        """All bytes of an object; None when there is none."""
        data = self._tried(name, "read", lambda path: self._fs.cat_file(path))
        return None if data is None else np.frombuffer(bytearray(data), np.uint8)

    def read_packed(self, key: str) -> np.ndarray | None:
        """An entry out of one of the shards, by a range read; None when none has it. Raises CacheCorruptError."""
        found = self._merged.find(key)
        if found is None and time.monotonic() - self._listed_s > _LIST_EVERY_S:
            self._list_shards()
            found = self._merged.find(key)
        if found is None:
            return None
        index, row = found
        place = index.place(row)
        name = index.where.removeprefix(f"{self.url}/")
        data = self._read_range(name, place.start, place.stop - place.start)
        if data is None:  # replaced since it was listed
            self._listed_s = -1e9
            return None
        bytes_N = np.frombuffer(bytearray(data), np.uint8)
        index.check(row, bytes_N)
        return bytes_N

    def put(self, name: str, file: Path) -> None:
        """Store a file under a name, whole or not at all."""
        self._tried(name, "written", lambda path: self._put(path, str(file)))

    def names(self) -> set[str]:
        """What is stored, relative to the URL."""
        found = self._tried("", "listed", lambda path: self._fs.find(path))
        return {str(path).removeprefix(self._root).lstrip("/") for path in found or ()}

    def _put(self, path: str, file: str) -> None:
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        if self._is_atomic:
            self._fs.put_file(file, path)
            return
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.{name}.{secrets.token_hex(4)}.tmp"
        self._fs.put_file(file, temporary)
        self._fs.mv(temporary, path)

    def _list_shards(self) -> None:
        with self._lock:
            paths = self._tried(SHARDS, "listed", lambda path: self._fs.ls(path, detail=True)) or []
            sizes = {str(info["name"]).rpartition("/")[2]: info["size"] for info in paths}
            indices = {}
            for name in sorted(name for name in sizes if name.endswith(SHARD_SUFFIX) and not name.startswith(".")):
                indices[name] = self._indices.get(name) or self._read_index(f"{SHARDS}/{name}", sizes[name])
            self._indices, self._merged = indices, merge(list(indices.values()))
            self._listed_s = time.monotonic()

    def _read_index(self, name: str, size: int) -> ShardIndex:
        return read_index(
            f"{self.url}/{name}", size, lambda start, length: self._read_range(name, start, length) or b""
        )

    def _read_range(self, name: str, start: int, length: int) -> bytes | None:
        return self._tried(name, "read", lambda path: self._fs.cat_file(path, start=start, end=start + length))

    def _tried(self, name: str, what: str, call: Callable[[str], Result]) -> Result | None:
        """The result of a call on an object's path, tried several times; None when there is no such object."""
        problem: Any = None
        tries = 0
        for tries in range(1, TRIES + 1):
            if problem is not None:
                time.sleep(FIRST_WAIT_S * 2 ** (tries - 2))
            try:
                return call(f"{self._root}/{name}".rstrip("/"))
            except FileNotFoundError:
                return None
            except Exception as error:  # noqa: BLE001  of any library that serves such a URL
                problem = error
                if isinstance(error, _FINAL):
                    break
        remedy = "check the network and the credentials and run it again, or work from the local folder alone with "
        raise CacheRemoteError(
            f"{self.url}/{name}: cannot be {what}, {tries} tries: {type(problem).__name__}: {problem}; "
            f"{remedy}cache.remote: null"
        ) from problem
