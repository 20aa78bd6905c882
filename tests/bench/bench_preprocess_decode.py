"""CPU seconds to open a clip (decode, sample, resize): this framework's PyAV reader against qwen-vl-utils with decord.

    python tests/bench/bench_preprocess_decode.py [--repeat 5] [--out FILE.md]

Both take the same frames (those fetch_video chooses) at the same size and timestamps, which is asserted. Each setting
is measured side by side, several times in turn, in one process; the table gives medians of user + system seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["FORCE_QWENVL_VIDEO_READER"] = "decord"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import av
import numpy as np
import torch
from qwen_vl_utils import fetch_video

from mmrl.config.schema import BudgetClass
from mmrl.data.budget import VisionGeometry
from mmrl.data.opening import OpenedMedia, OpenJob, sample_clip
from mmrl.data.sample import MediaRef
from mmrl.data.video import open_clip, reader_version

GEOMETRY = VisionGeometry(
    family="qwen3_vl",
    patch_size=16,
    merge_size=2,
    temporal_patch_size=2,
    image_mean=(0.5, 0.5, 0.5),
    image_std=(0.5, 0.5, 0.5),
    video_rule="qwen3",
    default_total_pixels=1 << 40,
)


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


def make_clip(folder: Path, setting: Setting) -> Path:
    """Moving soft noise: it costs a decoder about what natural video does."""
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


def by_mmrl(path: Path, setting: Setting) -> OpenedMedia:
    budget = BudgetClass(
        min_pixels=32 * 32,
        max_pixels=setting.max_pixels,
        max_frames=setting.frames,
        min_frames=setting.frames,
        sample_fps=1e-3,
    )
    job = OpenJob(MediaRef("video", path), budget, GEOMETRY)
    with open_clip(path, reader="pyav") as clip:
        return sample_clip(clip, job, reader="pyav", broken_tail="error")


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


def measure(path: Path, setting: Setting, *, repeat: int) -> tuple[float, float]:
    """Median CPU seconds (theirs, ours), measured in turn."""
    check_same(path, setting)
    theirs, ours = [], []
    for _ in range(repeat):
        theirs.append(cpu_seconds(lambda: by_qwen_vl_utils(path, setting))[0])
        ours.append(cpu_seconds(lambda: by_mmrl(path, setting))[0])
    return statistics.median(theirs), statistics.median(ours)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = ["| clip | qwen-vl-utils + decord, CPU s | mmrl, CPU s | ratio |", "|---|---|---|---|"]
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for setting in SETTINGS:
            path = make_clip(Path(folder), setting)
            theirs, ours = measure(path, setting, repeat=arguments.repeat)
            ratios.append(theirs / ours)
            lines.append(f"| {setting.name} | {theirs:.3f} | {ours:.3f} | {ratios[-1]:.2f} |")
            print(lines[-1], flush=True)
    versions = f"{reader_version('pyav')}, qwen-vl-utils {version('qwen-vl-utils')}, decord {version('decord')}"
    mean = statistics.geometric_mean(ratios)
    lines.append(f"\nGeometric mean {mean:.2f}x, least {min(ratios):.2f}x ({versions}, torch {torch.__version__})")
    print(lines[-1])
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
