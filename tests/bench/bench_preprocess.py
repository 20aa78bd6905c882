"""Preprocessing a clip: `mmrl preprocess` against qwen-vl-utils' `fetch_video` with decord, and against a PyAV loop.

    python tests/bench/bench_preprocess.py [--only decord|loop] [--match REGEX] [--repeat 5] [--out FILE.md]

Ours is the whole way to a stored entry: hash the file, decode, sample, resize, write, sync, read back and verify.
Theirs ends with the tensor in memory. Both take the same frames (those fetch_video chooses) at the same size and
timestamps, which is asserted first. Two tables, medians of repetitions taken in turn:

- CPU (user + system) seconds of one process, all threads
- wall seconds a clip, with one process per core for each side, started and warm before the clock runs

The loop is `for frame in container.decode(video=0)` that keeps the same frames, resized by the same function, and stops
after the last; it ends with the tensor in memory, which is asserted to be ours bit for bit. CPU and wall seconds of one
clip; ours a second time with a decoder process that may use the idle cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["FORCE_QWENVL_VIDEO_READER"] = "decord"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import av
import numpy as np
import torch
from makers.long_clips import repeat_clip
from makers.openers import LocalOpener
from qwen_vl_utils import fetch_video

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.cache import Opener, PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenedMedia, OpenJob, open_medium, planned_clip
from mmrl.data.preprocess.hashing import hashed_ahead
from mmrl.data.sample import MediaRef
from mmrl.data.video import reader_version
from mmrl.data.video_readers.pyav_reader import probe
from mmrl.data.vision import MediaPlan
from mmrl.errors import MediaError
from mmrl.models.qwen import QwenGeometry

GEOMETRY = QwenGeometry(
    family="qwen3_vl",
    patch_size=16,
    merge_size=2,
    temporal_patch_size=2,
    image_mean=(0.5, 0.5, 0.5),
    image_std=(0.5, 0.5, 0.5),
    video_rule="qwen3",
    default_total_pixels=1 << 40,
)
VIDEO = VideoSection(reader="pyav")


@dataclass(frozen=True)
class Setting:
    """A clip to make and how many frames of how many pixels to take of it."""

    name: str
    width: int
    height: int
    seconds: int
    frames: int
    max_pixels: int
    codec: str = "libx264"
    suffix: str = "mp4"
    gop: int = 60
    fps: int = 30
    turns: int = 1


SETTINGS = (
    Setting("10 s 360p h264, 16 frames", 640, 360, 10, 16, 224 * 224),
    Setting("30 s 360p h264, 16 frames", 640, 360, 30, 16, 224 * 224),
    Setting("30 s 360p h264, 64 frames", 640, 360, 30, 64, 224 * 224),
    Setting("20 s 720p h264, 32 frames", 1280, 720, 20, 32, 448 * 448),
    Setting("60 s 360p h264 gop 250, 32 frames", 640, 360, 60, 32, 224 * 224, gop=250),
    Setting("20 s 360p hevc, 32 frames", 640, 360, 20, 32, 224 * 224, codec="libx265"),
    Setting("20 s 360p vp9, 32 frames", 640, 360, 20, 32, 224 * 224, codec="libvpx-vp9", suffix="webm"),
    Setting("5 s 240p h264, 10 of 150 frames", 320, 240, 5, 10, 112 * 112),
)


LOOP_SETTINGS = (
    Setting("30 s 360p h264, 16 frames", 640, 360, 30, 16, 224 * 224),
    Setting("30 s 360p h264, 64 frames", 640, 360, 30, 64, 224 * 224),
    Setting("30 s 360p h264 gop 250, 32 frames", 640, 360, 30, 32, 224 * 224, gop=250),
    Setting("6 min 360p h264, 16 frames", 640, 360, 30, 16, 224 * 224, turns=12),
    Setting("6 min 360p h264, 64 frames", 640, 360, 30, 64, 224 * 224, turns=12),
    Setting("6 min 360p h264 gop 250, 64 frames", 640, 360, 30, 64, 224 * 224, gop=250, turns=12),
    Setting("6 min 720p h264, 64 frames", 1280, 720, 10, 64, 448 * 448, turns=36),
    Setting("6 min 360p hevc, 64 frames", 640, 360, 30, 64, 224 * 224, codec="libx265", turns=12),
    Setting("6 min 360p vp9, 64 frames", 640, 360, 30, 64, 224 * 224, codec="libvpx-vp9", suffix="webm", turns=12),
)
"""Long clips are `turns` times the same seconds, their packets copied."""


def fitting(settings: Sequence[Setting], match: str) -> list[Setting]:
    return [setting for setting in settings if re.search(match, setting.name)]


def make_clip(folder: Path, setting: Setting) -> Path:
    """Moving soft noise: it costs a decoder about what natural video does."""
    if setting.turns > 1:
        once = make_clip(folder, replace(setting, name=f"{setting.name} once", turns=1))
        return repeat_clip(once, once.with_stem(f"{once.stem}_repeated"), setting.turns)
    path = folder / f"{setting.name.replace(' ', '_').replace(',', '')}.{setting.suffix}"
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (setting.height // 16 + 8, setting.width // 16 + 8, 3), dtype=np.uint8)
    texture = np.kron(coarse, np.ones((16, 16, 1), np.uint8))
    texture = (texture // 2 + rng.integers(0, 48, texture.shape)).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(setting.codec, rate=setting.fps)
        stream.width, stream.height, stream.pix_fmt = setting.width, setting.height, "yuv420p"
        stream.codec_context.gop_size = setting.gop
        if setting.codec == "libx265":
            stream.codec_context.options = {"x265-params": f"log-level=none:keyint={setting.gop}", "preset": "veryfast"}
        if setting.codec == "libx264":
            stream.codec_context.options = {"preset": "medium"}
        if setting.codec == "libvpx-vp9":
            stream.codec_context.options = {"cpu-used": "8", "deadline": "realtime"}
        for index in range(setting.seconds * setting.fps):
            x, y = index % 100, (index // 2) % 100
            view = np.ascontiguousarray(texture[y : y + setting.height, x : x + setting.width])
            frame = av.VideoFrame.from_ndarray(view, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, setting.fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def by_qwen_vl_utils(path: Path, setting: Setting) -> tuple[torch.Tensor, dict]:
    element = {
        "video": str(path),
        "nframes": setting.frames,
        "min_pixels": 32 * 32,
        "max_pixels": setting.max_pixels,
        "total_pixels": 1 << 40,
    }
    (video_F3HW, metadata), _ = fetch_video(
        element, image_patch_size=16, return_video_sample_fps=True, return_video_metadata=True
    )
    return video_F3HW, metadata


def job_of(path: Path, setting: Setting) -> OpenJob:
    budget = BudgetClass(
        min_pixels=32 * 32,
        max_pixels=setting.max_pixels,
        max_frames=setting.frames,
        min_frames=setting.frames,
        sample_fps=1e-3,
    )
    return OpenJob(MediaRef("video", path), budget, GEOMETRY)


def by_mmrl(path: Path, setting: Setting) -> OpenedMedia:
    return open_medium(job_of(path, setting), VIDEO)


def store(paths: Sequence[Path], setting: Setting, folder: Path, opener: Opener) -> None:
    """Preprocess clips into an empty cache."""
    shutil.rmtree(folder, ignore_errors=True)
    cache = PixelCache(folder)
    jobs = ((path, job_of(path, setting)) for path in paths)
    requests = (request for _, request in hashed_ahead(lambda job: cache.request(job, VIDEO), jobs))
    for _, result in cache.build_many(requests, opener):
        if isinstance(result, MediaError):
            raise result


def cpu_seconds(call: Callable[[], object]) -> tuple[float, float]:
    """(CPU seconds of all threads, wall seconds) of one call."""
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    call()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, time.perf_counter() - started


def check_same(path: Path, setting: Setting) -> None:
    """Same size, indices and timestamps; and pixels up to the two swscale versions, where decord's seeking is exact."""
    theirs_F3HW, metadata = by_qwen_vl_utils(path, setting)
    ours = by_mmrl(path, setting)
    assert ours.frames_F3HW.shape == theirs_F3HW.shape, (ours.frames_F3HW.shape, theirs_F3HW.shape)
    assert list(ours.frame_indices) == list(metadata["frames_indices"]), setting.name
    expected_s = [index / metadata["fps"] for index in metadata["frames_indices"]]
    assert np.allclose(ours.timestamps_s, expected_s, atol=2e-3), setting.name
    difference = (ours.frames_F3HW.float() - theirs_F3HW.float()).abs().mean().item()
    assert difference < 2.0 or setting.codec == "libx265", (setting.name, difference)


def measure_cpu(path: Path, setting: Setting, *, repeat: int) -> tuple[float, float]:
    """Median CPU seconds (theirs, ours), measured in turn."""
    theirs, ours = [], []
    opener, cache = LocalOpener(VIDEO), path.parent / "cache"
    for _ in range(repeat):
        theirs.append(cpu_seconds(lambda: by_qwen_vl_utils(path, setting))[0])
        ours.append(cpu_seconds(lambda: store([path], setting, cache, opener))[0])
    return statistics.median(theirs), statistics.median(ours)


def decode_elsewhere(job: tuple[Path, Setting]) -> tuple[int, ...]:
    """In a process of the other side's pool. The tensor stays there: sending it back is not charged."""
    torch.set_num_threads(1)
    return tuple(by_qwen_vl_utils(*job)[0].shape)


def measure_wall(path: Path, setting: Setting, *, repeat: int, workers: int) -> tuple[float, float]:
    """Median wall seconds a clip (theirs, ours) of copies of it, one process per core."""
    copies = [path.with_stem(f"{path.stem}_{number}") for number in range(4 * workers)]
    for copy in copies:
        shutil.copyfile(path, copy)
    jobs, cache = [(copy, setting) for copy in copies], path.parent / "cache"
    theirs, ours = [], []
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers) as pool, MediaOpener(VIDEO, workers) as opener:
        pool.map(decode_elsewhere, jobs[:workers], chunksize=1)
        store(copies[:workers], setting, cache, opener)
        for _ in range(repeat):
            theirs.append(cpu_seconds(lambda: pool.map(decode_elsewhere, jobs, chunksize=1))[1] / len(copies))
            ours.append(cpu_seconds(lambda: store(copies, setting, cache, opener))[1] / len(copies))
    for copy in copies:
        copy.unlink()
    return statistics.median(theirs), statistics.median(ours)


def against_decord(folder: Path, *, match: str, repeat: int, workers: int) -> list[str]:
    lines = ["| clip | theirs, CPU s | ours, CPU s | ratio | theirs, wall s | ours, wall s | ratio |"]
    lines.append("|---" * 7 + "|")
    cpu_ratios, wall_ratios = [], []
    for setting in fitting(SETTINGS, match):
        path = make_clip(folder, setting)
        check_same(path, setting)
        theirs, ours = measure_cpu(path, setting, repeat=repeat)
        theirs_wall, ours_wall = measure_wall(path, setting, repeat=repeat, workers=workers)
        cpu_ratios.append(theirs / ours)
        wall_ratios.append(theirs_wall / ours_wall)
        lines.append(
            f"| {setting.name} | {theirs:.3f} | {ours:.3f} | {cpu_ratios[-1]:.2f} "
            f"| {theirs_wall:.3f} | {ours_wall:.3f} | {wall_ratios[-1]:.2f} |"
        )
        print(lines[-1], flush=True)
    for name, ratios in (("CPU", cpu_ratios), ("Wall clock", wall_ratios)):
        lines.append(f"\n{name}: geometric mean {statistics.geometric_mean(ratios):.2f}x, least {min(ratios):.2f}x")
    return lines


def by_loop(path: Path, planned: OpenedMedia, plan: MediaPlan) -> torch.Tensor:
    """The frames of a plan, as anybody would fetch them with PyAV."""
    places = {index: place for place, index in enumerate(planned.frame_indices)}
    frames_F3HW = torch.empty(planned.frames_F3HW.shape, dtype=torch.uint8)
    with av.open(str(path)) as container:
        for index, frame in enumerate(container.decode(video=0)):
            if index in places:
                frames_F3HW[places.pop(index)] = GEOMETRY.clip_frame(frame.to_ndarray(format="rgb24"), plan)
            if not places:
                return frames_F3HW
    raise AssertionError(f"{path}: frames {list(places)} were not found")


def measure_loop(path: Path, setting: Setting, *, repeat: int, workers: int) -> list[float]:
    """Medians of (CPU, wall) of the loop, (CPU, wall) of ours in this process, wall of ours with the idle cores."""
    job = job_of(path, setting)
    info = probe(path)
    planned, plan = planned_clip(info, range(info.num_frames), job, reader="pyav")
    assert torch.equal(by_loop(path, planned, plan), open_medium(job, VIDEO).frames_F3HW), setting.name
    cache, here = path.parent / "cache", LocalOpener(VIDEO)
    rounds = []
    with MediaOpener(VIDEO, workers) as opener:
        store([path], setting, cache, opener)
        for _ in range(repeat):
            loop = cpu_seconds(lambda: by_loop(path, planned, plan))
            ours = cpu_seconds(lambda: store([path], setting, cache, here))
            rounds.append([*loop, *ours, cpu_seconds(lambda: store([path], setting, cache, opener))[1]])
    return [statistics.median(figures) for figures in zip(*rounds, strict=True)]


def against_loop(folder: Path, *, match: str, repeat: int, workers: int) -> list[str]:
    columns = ("clip", "loop, CPU s", "ours, CPU s", "ratio", "loop, wall s", "ours, wall s", "ratio")
    lines = [f"| {' | '.join(columns)} | ours, {workers} cores, wall s | ratio |", "|---" * 9 + "|"]
    for setting in fitting(LOOP_SETTINGS, match):
        loop_cpu, loop, ours_cpu, ours, several = measure_loop(
            make_clip(folder, setting), setting, repeat=repeat, workers=workers
        )
        cpu = f"{loop_cpu:.3f} | {ours_cpu:.3f} | {loop_cpu / ours_cpu:.2f}"
        wall = f"{loop:.3f} | {ours:.3f} | {loop / ours:.2f} | {several:.3f} | {loop / several:.2f}"
        lines.append(f"| {setting.name} | {cpu} | {wall} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("decord", "loop"))
    parser.add_argument("--match", default="", help="clips whose name fits")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    workers = len(os.sched_getaffinity(0))
    versions = f"{reader_version('pyav')}, qwen-vl-utils {version('qwen-vl-utils')}, decord {version('decord')}"
    machine = f"{versions}, torch {torch.__version__}, {workers} processes on {workers} cores"
    chosen = {"match": arguments.match, "repeat": arguments.repeat, "workers": workers}
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        if arguments.only in (None, "decord"):
            lines += [*against_decord(Path(folder), **chosen), ""]
        if arguments.only in (None, "loop"):
            lines += [*against_loop(Path(folder), **chosen), ""]
    lines.append(f"Theirs: fetch_video; loop: PyAV's decode from the start; {machine}")
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
