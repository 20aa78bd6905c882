"""Packing a store: entries by themselves go into shards, and back.

A shard appears whole, by rename, before the files it replaces are removed: killed at any point, every entry is in at
least one place. What is left of a killed run is a temporary file, or entries that are in both places; the next run
removes either.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mmrl.data.container import decode
from mmrl.data.mapping import sync_folder, write_whole
from mmrl.data.store import EntryStore
from mmrl.errors import CacheCorruptError

SHARD_BYTES = 256 * 10**6

# A shard is written anew without them when entries that no longer count fill more than this share of it.
_MOST_DEAD = 0.25


@dataclass
class Packing:
    """What was done. larger: entries left by themselves for their size. problems: damaged ones, left as they are."""

    entries: int = 0
    bytes: int = 0
    shards: int = 0
    larger: int = 0
    problems: list[str] = field(default_factory=list)


def pack(store: EntryStore, *, shard_bytes: int = SHARD_BYTES) -> Packing:
    """Put the entries that lie by themselves into shards of about this size, in the order they were made.

    Those of more than a quarter of it stay: they gain nothing. Raises CacheError while another process packs.
    """
    done = Packing()
    with store.exclusive():
        store.remove_stale_temporaries()
        for keys in _batches(store, shard_bytes, done):
            _pack_batch(store, keys, done)
        _compact(store)
    return done


def unpack(store: EntryStore) -> Packing:
    """The way back: every packed entry becomes a file. Raises CacheError while another process packs."""
    done = Packing()
    with store.exclusive():
        by_shard: dict[str, list[str]] = {}
        for key, index, _ in store.shards.items():
            by_shard.setdefault(index.where, []).append(key)
        for name, keys in by_shard.items():
            for key, bytes_N in store.shards.entries(Path(name)):
                path = store.loose_path(key)
                if key in keys and not path.exists():
                    done.bytes += write_whole(path, [bytes_N.data])
                    done.entries += 1
            for folder in {store.loose_path(key).parent for key in keys}:
                sync_folder(folder)
            store.rewrite(Path(name), keep=())
            done.shards += 1
    return done


def _batches(store: EntryStore, shard_bytes: int, done: Packing) -> Iterator[list[str]]:
    """Keys of whole entries, a shard's worth at a time. Those that are larger or damaged are counted in `done`."""
    paths = {}
    for item in store.items():
        if item.packed:
            continue
        with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
            paths[item.key] = (item.where.stat().st_mtime_ns, item.size)
    batch, size = [], 0
    for key, (_, entry_bytes) in sorted(paths.items(), key=lambda item: (item[1][0], item[0])):
        if entry_bytes > shard_bytes // 4:
            done.larger += 1
        elif _is_whole(store, key, done):
            if batch and size + entry_bytes > shard_bytes:
                yield batch
                batch, size = [], 0
            batch.append(key)
            size += entry_bytes
    if batch:
        yield batch


def _is_whole(store: EntryStore, key: str, done: Packing) -> bool:
    try:
        mapped = store.find_loose(key)
        if mapped is not None:
            decode(mapped.where, mapped.bytes_N, verify=True)
    except CacheCorruptError as error:
        done.problems.append(str(error))
        return False
    return mapped is not None


def _pack_batch(store: EntryStore, keys: list[str], done: Packing) -> None:
    packed: dict[str, tuple[int, ...]] = {}

    def entries() -> Iterator[tuple[str, np.ndarray]]:
        for key in keys:  # mapped one at a time: a process may have no more than 65,530 mappings
            mapped = store.find_loose(key)
            if mapped is not None:
                packed[key] = mapped.stamp
                yield key, mapped.bytes_N

    done.bytes += store.shards.write(entries())
    sync_folder(store.shards.folder)
    store.shards.refresh()
    for key, stamp in packed.items():
        mapped = store.find_loose(key)
        if mapped is not None and mapped.stamp == stamp:
            store.loose_path(key).unlink(missing_ok=True)
    done.entries += len(packed)
    done.shards += 1


def _compact(store: EntryStore) -> None:
    """Give back the room of entries that later ones replaced."""
    live: dict[Path, dict[str, int]] = {}
    for key, index, row in store.shards.items():
        live.setdefault(Path(index.where), {})[key] = int(index.records_R["length"][row])
    for path in store.shards.paths():
        kept = live.get(path, {})
        if sum(kept.values()) < (1 - _MOST_DEAD) * path.stat().st_size:
            store.rewrite(path, keep=kept)
