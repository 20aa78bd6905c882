"""One list of work, largest first, for all decoders: wall time of a skewed set against the ideal.

    python tests/bench/bench_work_stealing.py [--repeat 3] [--out FILE.md]

The set: 24 clips of 10 s and one of 4 minutes, 360p. The ideal: what one decoder takes for all of them, divided by the
cores. Columns: in the order of the rows with the large one last, largest first, and largest first with its parts shared
by decoders that have nothing left. Decoders are started and warm; hashing, writing and verifying are part of each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from makers.long_clips import encode_unit, repeat_clip
from makers.openers import QWEN25

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenJob
from mmrl.data.preprocess.hashing import hashed_ahead
from mmrl.data.sample import MediaRef
from mmrl.data.video import reader_version
from mmrl.errors import MediaError

VIDEO = VideoSection()
BUDGET = BudgetClass(min_pixels=784, max_pixels=224 * 224, max_frames=128, min_frames=4, sample_fps=0.5)


def make_set(folder: Path) -> list[Path]:
    unit = encode_unit(
        folder / "unit.mp4", width=640, height=360, frames=250, fps=25, codec="libx264", gop=50, preset="veryfast"
    )
    clips = [Path(shutil.copy(unit, folder / f"{number}.mp4")) for number in range(24)]
    for number, clip in enumerate(clips):
        with clip.open("ab") as file:  # other content, so that none is a repetition
            file.write(b"\x00\x00\x00\x09free" + bytes([number]))
    return [*clips, repeat_clip(unit, folder / "large.mp4", 24)]


def wall_s(paths: list[Path], folder: Path, opener: MediaOpener) -> float:
    shutil.rmtree(folder, ignore_errors=True)
    cache = PixelCache(folder)
    started = time.perf_counter()
    jobs = ((path, OpenJob(MediaRef("video", path), BUDGET, QWEN25)) for path in paths)
    requests = (request for _, request in hashed_ahead(lambda job: cache.request(job, VIDEO), jobs))
    for _, result in cache.build_many(requests, opener):
        if isinstance(result, MediaError):
            raise result
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    unshared = mock.patch.object(MediaOpener, "_share_cores", lambda opener, *, idle: None)
    with tempfile.TemporaryDirectory() as name, MediaOpener(VIDEO, 1) as one, MediaOpener(VIDEO, cores) as all_cores:
        folder = Path(name)
        paths, cache = make_set(folder), folder / "cache"
        largest_first = sorted(paths, key=lambda path: -path.stat().st_size)
        for opener in (one, all_cores):
            wall_s(paths[:cores], cache, opener)
        rounds = []
        for _ in range(arguments.repeat):
            alone = wall_s(paths, cache, one)
            with unshared:
                by_rows, by_size = wall_s(paths, cache, all_cores), wall_s(largest_first, cache, all_cores)
            rounds.append((alone / cores, by_rows, by_size, wall_s(largest_first, cache, all_cores)))
    ideal, *walls = (statistics.median(figures) for figures in zip(*rounds, strict=True))
    lines = [
        "| ideal s | rows' order s | of ideal | largest first s | of ideal | shared s | of ideal |",
        "|---" * 7 + "|",
    ]
    lines.append(f"| {ideal:.2f} | " + " | ".join(f"{wall:.2f} | {wall / ideal:.2f}" for wall in walls) + " |")
    lines.append(f"\n{reader_version('pyav')}, torch {torch.__version__}, {cores} decoders on {cores} cores")
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
