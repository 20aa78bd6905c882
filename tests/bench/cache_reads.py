"""Rows of bench_cache.py about the store: reads beside memcpy, loose and packed, warm and cold; compressed frames.

Each figure is a median of repetitions taken in turn. *get*: look-up and mapping alone. *read*: look-up, and every byte
copied into memory that is there already (what a staging buffer gets). *memcpy*: the same bytes copied into it from
memory. *cold*: the page cache of the file dropped, by an object that has not opened it: verified and copied.
"""

from __future__ import annotations

import gc
import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from makers.openers import QWEN25, LocalOpener

from mmrl.config.schema import BudgetClass
from mmrl.data.cache import PIXELS, PixelCache
from mmrl.data.pack import pack
from mmrl.data.sample import MediaRef
from mmrl.data.storage import Storage
from mmrl.data.store import EntryStore

GROUPS = ((1, 84, 24), (1, 336, 8), (55, 224, 2), (64, 420, 1))
"""(frames, side in pixels, entries of that size): 21 kB, 339 kB, 8 MB and 34 MB."""


@dataclass
class Reads:
    """Microseconds of single reads."""

    get: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)
    memcpy: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)


def microseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - started) / 1e3


def drop_pages(path: Path) -> None:
    """Throw a file out of the page cache (it must be clean and nowhere mapped)."""
    gc.collect()
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def noise(folder: Path, frames: int, side: int, count: int) -> list[MediaRef]:
    """Media of noise as files, so that a look-up is what it is in training: a stat of the source, no hashing."""
    rng, refs = np.random.default_rng(side), []
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / f"{frames}-{side}-{number}.bin"
        path.write_bytes(rng.bytes(64))
        os.utime(path, ns=(10**18, 10**18))
        refs.append(MediaRef("video" if frames > 1 else "image", path))
    return refs


class NoiseOpener(LocalOpener):
    """Opens every file as noise of the size that its name says."""

    def open(self, ref, budget, geometry):
        frames, side, number = (int(part) for part in Path(str(ref.source)).stem.split("-"))
        pixels = np.random.default_rng(number).integers(0, 256, (frames, side, side, 3), dtype=np.uint8)
        made = MediaRef("image", pixels[0]) if frames == 1 else MediaRef("video", pixels, source_fps=30.0)
        return super().open(made, budget, geometry)


def read_rows(folder: Path, *, repeat: int) -> list[str]:
    """The table of reads beside memcpy."""
    rows = [
        "| entry | MB | stored | get us | read us | memcpy us | read / memcpy speed | cold, verified us |",
        "|---|---|---|---|---|---|---|---|",
    ]
    opener = NoiseOpener()
    for frames, side, count in GROUPS:
        budget = BudgetClass(min_pixels=side * side, max_pixels=side * side, max_frames=64, sample_fps=30.0)
        refs = noise(folder / "media", frames, side, count)
        places = {"loose": folder / f"loose-{side}", "packed": folder / f"packed-{side}"}
        cache = PixelCache(places["loose"])
        for ref in refs:
            cache.get(ref, budget, QWEN25, opener)
        del cache
        shutil.copytree(places["loose"], places["packed"])
        pack(EntryStore(places["packed"] / PIXELS), shard_bytes=256 * 10**6)
        found = {name: Reads() for name in places}
        shape = _measure(places, refs, budget, opener, found, repeat=repeat)
        rows += [_row(shape, name, reads) for name, reads in found.items()]
    return rows


def _measure(
    places: dict[str, Path],
    refs: Sequence[MediaRef],
    budget: BudgetClass,
    opener: NoiseOpener,
    found: dict[str, Reads],
    *,
    repeat: int,
) -> tuple[int, ...]:
    caches = {name: PixelCache(place, on_miss="error") for name, place in places.items()}
    copy_F3HW = caches["loose"].get(refs[0], budget, QWEN25, opener).frames_F3HW.clone()
    target_F3HW = torch.empty_like(copy_F3HW)

    def get(cache: PixelCache, ref: MediaRef) -> torch.Tensor:
        return cache.get(ref, budget, QWEN25, opener).frames_F3HW

    for cache in caches.values():  # each entry has been opened once: warm, verified
        for ref in refs:
            target_F3HW.copy_(get(cache, ref))
    for _ in range(repeat):
        for ref in refs:
            for name, cache in caches.items():
                found[name].get.append(microseconds(lambda cache=cache, ref=ref: get(cache, ref)))
                found[name].memcpy.append(microseconds(lambda: target_F3HW.copy_(copy_F3HW)))
                found[name].read.append(microseconds(lambda cache=cache, ref=ref: target_F3HW.copy_(get(cache, ref))))
    caches.clear()
    del cache
    for name, place in places.items():
        for ref in refs[: max(3, repeat // 4)]:
            for path in place.glob("pixels/*/*.s*"):
                drop_pages(path)
            fresh = PixelCache(place, on_miss="error")
            fresh.hashes.of(Path(str(ref.source)))  # the memory of hashes is read once a process
            fresh.store.shards.refresh()  # as the indices are
            found[name].cold.append(microseconds(lambda fresh=fresh, ref=ref: target_F3HW.copy_(get(fresh, ref))))
            del fresh
    return tuple(copy_F3HW.shape)


def _row(shape: tuple[int, ...], name: str, reads: Reads) -> str:
    get, read, memcpy, cold = (
        statistics.median(values) for values in (reads.get, reads.read, reads.memcpy, reads.cold)
    )
    size = int(np.prod(shape)) / 1e6
    return (
        f"| {' x '.join(map(str, shape))} | {size:.2f} | {name} | {get:.0f} | {read:.0f} | {memcpy:.0f} "
        f"| {memcpy / read:.0%} | {cold:.0f} |"
    )


def compression_rows(folder: Path, media: Sequence[tuple[str, MediaRef, BudgetClass]], *, repeat: int) -> list[str]:
    """Ratio and read time of real frames, as they are and compressed."""
    rows = [
        "| frames | MB | zstd MB | ratio | plain read ms | zstd read ms |",
        "|---|---|---|---|---|---|---|",
    ]
    rows += [_compression_row(folder, name, ref, budget, repeat=repeat) for name, ref, budget in media]
    return rows


def _compression_row(folder: Path, name: str, ref: MediaRef, budget: BudgetClass, *, repeat: int) -> str:
    opened = LocalOpener().open(ref, budget, QWEN25)

    class Opened(LocalOpener):
        def open(self, ref, budget, geometry):
            return opened

    def read(cache: PixelCache) -> torch.Tensor:
        return cache.get(ref, budget, QWEN25, Opened()).frames_F3HW.clone()

    plain, small = PixelCache(folder / "plain"), PixelCache(folder / "zstd", storage=Storage(compress="zstd"))
    for cache in (plain, small):
        read(cache)  # written
    times: dict[PixelCache, list[float]] = {plain: [], small: []}
    for _ in range(repeat):
        for cache, values in times.items():
            values.append(microseconds(lambda cache=cache: read(cache)))
    key = plain.get(ref, budget, QWEN25, Opened()).key
    sizes = [cache.store.loose_path(key).stat().st_size for cache in (plain, small)]
    plain_ms, small_ms = (statistics.median(times[cache]) / 1e3 for cache in (plain, small))
    return (
        f"| {name} {' x '.join(map(str, opened.frames_F3HW.shape))} | {sizes[0] / 1e6:.2f} | {sizes[1] / 1e6:.2f} "
        f"| {sizes[0] / sizes[1]:.2f} | {plain_ms:.2f} | {small_ms:.2f} |"
    )
