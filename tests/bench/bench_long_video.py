"""Long clips: what seeking saves, what decoding costs by the packets' sizes, what idle cores give, and peak memory.

    python tests/bench/bench_long_video.py [--only rule|threads|memory] [--repeat 3] [--out FILE.md]

- rule: wanted frames decoded by the plan, by a seek for every frame, and by decoding through; nanoseconds a pixel and a
  byte by least squares over the packets of the clip (timeline.py has one pair of numbers for all)
- threads: one process opens one clip with one thread and with one a core; the frames are compared bit for bit
- memory: peak of a process that opens five minutes and an hour of the same pictures under one budget
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from makers.long_clips import OPEN_ONE, encode_unit, peak_mib, repeat_clip
from makers.openers import QWEN25

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.opening import OpenJob, open_medium
from mmrl.data.sample import MediaRef
from mmrl.data.video import reader_version
from mmrl.data.video_readers import timeline
from mmrl.data.video_readers.pyav_reader import PyavClip


@dataclass(frozen=True)
class Kind:
    """How a clip is encoded. unit: frames that are encoded; the rest are copies of them."""

    name: str
    suffix: str
    codec: str
    gop: int
    options: dict
    width: int = 640
    height: int = 360
    unit: int = 500


X264 = {"preset": "medium", "x264_params": "scenecut=0"}
KINDS = (
    Kind("h264 360p gop 50", "mp4", "libx264", 50, X264),
    Kind("h264 360p gop 250", "mp4", "libx264", 250, X264),
    Kind("h264 360p gop 50 TS", "ts", "libx264", 50, X264),
    Kind("h264 720p gop 50", "mkv", "libx264", 50, X264, 1280, 720, 250),
    Kind("hevc 360p gop 50", "mp4", "libx265", 50, {"preset": "ultrafast", "x265_params": "log-level=none:keyint=50"}),
    Kind("vp9 360p gop 50", "webm", "libvpx-vp9", 50, {"cpu_used": 8, "deadline": "realtime"}),
)


def long_clip(folder: Path, kind: Kind, *, frames: int) -> Path:
    name = kind.name.replace(" ", "_")
    unit = folder / f"{name}.{'webm' if kind.suffix == 'webm' else 'mp4'}"
    if not unit.exists():
        encode_unit(
            unit,
            width=kind.width,
            height=kind.height,
            frames=kind.unit,
            fps=25,
            codec=kind.codec,
            gop=kind.gop,
            **kind.options,
        )
    return repeat_clip(unit, folder / f"{name}_{frames}.{kind.suffix}", frames // kind.unit)


def seconds(call: Callable[..., object], *arguments: object, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        call(*arguments)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def read(clip: PyavClip, wanted: list[int]) -> None:
    assert sum(1 for _ in clip.frames(wanted)) == len(wanted)


def cost_of_packets(clip: PyavClip) -> tuple[float, float]:
    """(nanoseconds a pixel, nanoseconds a byte)."""
    clip._rewind(clip._timeline.start)
    rows = []
    for packet in clip._container.demux(clip._stream):
        if packet.size:
            started = time.perf_counter()
            packet.decode()
            rows.append((clip._pixels, packet.size, (time.perf_counter() - started) * 1e9))
    array = np.array(rows[10:])
    return tuple(np.linalg.lstsq(array[:, :2], array[:, 2], rcond=None)[0])


def rule(folder: Path, repeat: int) -> list[str]:
    lines = [
        "| clip, 40 s | ns a pixel | ns a byte | wanted every | plan ms | a seek each | through |",
        "|---" * 7 + "|",
    ]
    for kind in KINDS:
        clip = PyavClip(long_clip(folder, kind, frames=1000))
        pixel, byte = cost_of_packets(clip)
        for step in (5, 23, 60, 200):
            wanted = list(range(3, 1000, step))
            plan = seconds(read, clip, wanted, repeat=repeat)
            with mock.patch.object(timeline, "PIPE_FRAMES", -1):
                every = seconds(read, clip, wanted, repeat=repeat)
            with mock.patch.object(timeline, "PIPE_FRAMES", 1e9), mock.patch.object(timeline, "PART_NS", 1e18):
                through = seconds(read, clip, wanted, repeat=repeat)
            figures = f"{plan * 1e3:.0f} | {every * 1e3:.0f} | {through * 1e3:.0f} |"
            lines.append(f"| {kind.name} | {pixel:.2f} | {byte:.0f} | {step} | {figures}")
            print(lines[-1], flush=True)
        clip.close()
    return [*lines, "\n`timeline.py` counts 1.00 ns a pixel and 65 ns a byte, and 5 frames for a seek."]


def opened(path: Path, threads: int) -> torch.Tensor:
    budget = BudgetClass(min_pixels=784, max_pixels=224 * 224, max_frames=64, min_frames=4, sample_fps=2.0)
    job = OpenJob(MediaRef("video", path), budget, QWEN25)
    return open_medium(job, VideoSection(), threads=lambda: threads).frames_F3HW


def threads(folder: Path, repeat: int) -> list[str]:
    cores = len(os.sched_getaffinity(0))
    lines = [f"| clip, 6 min, 64 frames | 1 thread s | {cores} threads s | ratio |", "|---" * 4 + "|"]
    for kind in KINDS:
        path = long_clip(folder, kind, frames=9000)
        assert torch.equal(opened(path, 1), opened(path, cores))
        one = seconds(opened, path, 1, repeat=repeat)
        several = seconds(opened, path, cores, repeat=repeat)
        lines.append(f"| {kind.name} | {one:.3f} | {several:.3f} | {one / several:.2f} |")
        print(lines[-1], flush=True)
    return lines


def memory(folder: Path) -> list[str]:
    lines = ["| clip | frames kept | threads | 5 min MiB | 1 h MiB | ratio | above the libraries |", "|---" * 7 + "|"]
    libraries = peak_mib(OPEN_ONE.partition("budget =")[0])[0]
    for kind in (KINDS[0], replace(KINDS[1], width=320, height=180, name="h264 180p gop 250")):
        paths = [long_clip(folder, kind, frames=minutes * 60 * 25) for minutes in (5, 60)]
        for frames, count in ((64, 1), (64, 2), (512, 2)):
            short, long = (peak_mib(OPEN_ONE, path, frames, count)[0] for path in paths)
            above = f"{short - libraries:.0f} and {long - libraries:.0f}"
            lines.append(
                f"| {kind.name} | {frames} | {count} | {short:.0f} | {long:.0f} | {long / short:.2f} | {above} |"
            )
            print(lines[-1], flush=True)
    return [*lines, f"\nThe libraries alone: {libraries:.0f} MiB."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("rule", "threads", "memory"))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    parts = {
        "rule": lambda folder: rule(folder, arguments.repeat),
        "threads": lambda folder: threads(folder, arguments.repeat),
        "memory": memory,
    }
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, part in parts.items():
            if arguments.only in (None, name):
                lines += ["", *part(Path(folder))] if lines else part(Path(folder))
    lines.append(f"\n{reader_version('pyav')}, torch {torch.__version__}, {len(os.sched_getaffinity(0))} cores")
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
