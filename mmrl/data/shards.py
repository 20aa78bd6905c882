"""Shards: the packed entries of a store, found by key and mapped a shard at a time.

    <folder>/<time>-<random>.shard

A shard never changes: packing adds files, giving space back replaces them, and names are never used again. So a mapped
shard stays right however the folder changes, and a reader looks at the folder again only when it does not find
something. Of two packed entries of one key the later shard's counts.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmrl.data.mapping import Mapped, map_file, write_whole
from mmrl.data.shard import SHARD_SUFFIX, ShardIndex, key_bytes, key_number, read_index_of, shard_blocks
from mmrl.errors import CacheCorruptError

FOLDER = "shards"

MOST_MAPPED = 64
"""Shards that are kept mapped though no entry of theirs is in use."""

_SETTLED_NS = 1_000_000_000  # a folder changed less than this ago may change again without its time moving


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """All indices as one: sorted by key number, of equal ones the entry of the latest shard first."""

    indices: tuple[ShardIndex, ...]
    numbers_R: np.ndarray
    shards_R: np.ndarray
    rows_R: np.ndarray

    def find(self, key: str) -> tuple[ShardIndex, int] | None:
        number, wanted = key_number(key), bytes.fromhex(key)
        at = int(self.numbers_R.searchsorted(number))
        while at < len(self.numbers_R) and self.numbers_R[at] == number:
            index, row = self.indices[self.shards_R[at]], int(self.rows_R[at])
            if key_bytes(index.records_R["key"][row]) == wanted:
                return index, row
            at += 1
        return None


class Shards:
    """The shards in a folder, which need not exist. Safe to use from several threads and processes."""

    def __init__(self, folder: Path, *, most_mapped: int = MOST_MAPPED) -> None:
        self.folder = folder
        self.most_mapped = most_mapped
        self._indices: dict[str, ShardIndex | CacheCorruptError] = {}
        self._merged: Merged | None = None
        self._seen_ns = -1
        self._recent: OrderedDict[str, np.ndarray] = OrderedDict()
        self._mapped: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()

    def find(self, key: str) -> Mapped | None:
        """A packed entry, mapped; None when no shard has it.

        Raises CacheCorruptError when none has it and one of them cannot be read.
        """
        for look_again in (False, True):
            merged = self._current(look_again=look_again)
            found = merged.find(key)
            if found is not None:
                index, row = found
                try:
                    shard_N = self._map(index)
                except FileNotFoundError:  # replaced by another process since its index was read
                    continue
                place = index.place(row)
                return Mapped(f"{index.where}: entry {key}", shard_N[place], (hash(index.where), place.start))
        for problem in self.problems():
            raise CacheCorruptError(problem)
        return None

    def items(self) -> Iterator[tuple[str, ShardIndex, int]]:
        """(key, its shard's index, row) of the entries that count, shard by shard."""
        merged = self._current(look_again=True)
        for index in merged.indices:
            for row in range(len(index.records_R)):
                key = index.key(row)
                if merged.find(key) == (index, row):
                    yield key, index, row

    def problems(self) -> list[str]:
        """What is wrong with shards whose index cannot be read."""
        return [str(index) for index in self._indices.values() if isinstance(index, CacheCorruptError)]

    def paths(self) -> list[Path]:
        """The shards whose index can be read, the oldest first."""
        return [Path(index.where) for index in self._current(look_again=True).indices]

    def write(self, entries: Iterable[tuple[str, np.ndarray]]) -> int:
        """Write a shard of entries, whole or not at all. Returns its bytes. Raises CacheError."""
        name = f"{time.time_ns():016x}-{secrets.token_hex(4)}{SHARD_SUFFIX}"
        return write_whole(self.folder / name, shard_blocks(entries))

    def entries(self, shard: Path) -> Iterator[tuple[str, np.ndarray]]:
        """(key, bytes) of all that a shard holds, in their order in it, damaged or not."""
        index = read_index_of(shard)
        shard_N = self._map(index)
        for row in np.argsort(index.records_R["offset"]).tolist():
            yield index.key(row), shard_N[index.place(row)]

    def refresh(self) -> None:
        """Look at the folder again."""
        self._current(look_again=True)

    @property
    def num_mapped(self) -> int:
        """Shards that are mapped now: recently used or with entries in use."""
        return len(self._mapped)

    def _current(self, *, look_again: bool) -> Merged:
        with self._lock:
            if self._merged is None or (look_again and self._may_have_changed()):
                self._load()
            assert self._merged is not None
            return self._merged

    def _may_have_changed(self) -> bool:
        try:
            return self.folder.stat().st_mtime_ns != self._seen_ns
        except FileNotFoundError:
            return bool(self._indices)

    def _load(self) -> None:
        try:
            changed_ns = self.folder.stat().st_mtime_ns
            settled = time.time_ns() - changed_ns > _SETTLED_NS
            names = sorted(name for name in os.listdir(self.folder) if name.endswith(SHARD_SUFFIX))  # noqa: PTH208
        except FileNotFoundError:
            changed_ns, settled, names = -1, True, []
        indices: dict[str, ShardIndex | CacheCorruptError] = {}
        for name in names:
            try:
                indices[name] = self._indices.get(name) or read_index_of(self.folder / name)
            except FileNotFoundError:
                continue
            except CacheCorruptError as error:
                indices[name] = error
        if self._merged is None or indices.keys() != self._indices.keys():
            self._merged = merge([index for index in indices.values() if isinstance(index, ShardIndex)])
        self._indices = indices
        self._seen_ns = changed_ns if settled else -2

    def _map(self, index: ShardIndex) -> np.ndarray:
        name = index.where
        with self._lock:
            shard_N = self._mapped.get(name)
            if shard_N is None:
                shard_N = map_file(name, os.stat(name).st_size)  # noqa: PTH116
                self._mapped[name] = shard_N
            self._recent[name] = shard_N
            self._recent.move_to_end(name)
            while len(self._recent) > self.most_mapped:
                self._recent.popitem(last=False)
            return shard_N


def merge(indices: list[ShardIndex]) -> Merged:
    """Later shards first among equal keys: a stable sort of the shards from the last to the first."""
    counts = [len(index.records_R) for index in indices]
    numbers_R = np.concatenate([index.keys_R for index in reversed(indices)] or [np.empty(0, np.uint64)])
    shards_R = np.repeat(np.arange(len(indices), dtype=np.int32)[::-1], counts[::-1])
    rows_R = np.concatenate([np.arange(count, dtype=np.int32) for count in reversed(counts)] or [np.empty(0, np.int32)])
    order_R = np.argsort(numbers_R, kind="stable")
    return Merged(tuple(indices), numbers_R[order_R], shards_R[order_R], rows_R[order_R])
