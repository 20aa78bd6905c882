"""Long clips, made fast: a short one encoded once, its packets written again and again with later times."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

TICKS = 90_000  # a second


def encode_unit(path: Path, *, width: int, height: int, frames: int, fps: int, codec: str, gop: int, **options) -> Path:
    """Moving soft noise, in whole groups of pictures: it costs a decoder about what natural video does."""
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (height // 16 + 8, width // 16 + 8, 3), dtype=np.uint8)
    texture = np.kron(coarse, np.ones((16, 16, 1), np.uint8))
    texture = (texture // 2 + rng.integers(0, 48, texture.shape)).astype(np.uint8)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=fps)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size = gop
        stream.codec_context.options = {name.replace("_", "-"): str(value) for name, value in options.items()}
        for index in range(frames):
            x, y = index % 100, (index // 2) % 100
            view = np.ascontiguousarray(texture[y : y + height, x : x + width])
            frame = av.VideoFrame.from_ndarray(view, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def repeat_clip(unit: Path, path: Path, times: int) -> Path:
    """The unit `times` over, its packets copied."""
    with av.open(str(unit)) as source:
        stream = source.streams.video[0]
        packets = [packet for packet in source.demux(stream) if packet.size]
        length = len(packets) * round(1 / (stream.average_rate * stream.time_base))
        data = [(bytes(packet), packet.pts, packet.dts, packet.is_keyframe, packet.duration) for packet in packets]
        with av.open(str(path), "w") as out:
            copy = out.add_stream_from_template(stream)
            for turn in range(times):
                for content, pts, dts, is_key, duration in data:
                    packet = av.Packet(content)
                    packet.stream, packet.time_base = copy, stream.time_base
                    packet.pts, packet.dts = pts + turn * length, dts + turn * length
                    packet.duration, packet.is_keyframe = duration, is_key
                    out.mux(packet)
    return path


def peak_mib(program: str, *arguments: object) -> tuple[float, str]:
    """Largest memory of a Python program (MiB resident), and what it printed."""
    tests = Path(__file__).resolve().parents[1]
    paths = os.pathsep.join([str(tests.parent), str(tests)])
    # The child reports for itself: RUSAGE_CHILDREN would keep the largest of all children so far.
    ending = "\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    done = subprocess.run(
        [sys.executable, "-c", program + ending, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    *said, peak = done.stdout.splitlines()
    return int(peak) / (1024.0 if sys.platform != "darwin" else 2**20), "\n".join(said)


OPEN_ONE = """
import sys
from pathlib import Path
from makers.openers import QWEN25
from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.opening import OpenJob, open_medium
from mmrl.data.sample import MediaRef
budget = BudgetClass(min_pixels=784, max_pixels=224 * 224, max_frames=int(sys.argv[2]), min_frames=4, sample_fps=2.0)
threads = int(sys.argv[3])
job = OpenJob(MediaRef("video", Path(sys.argv[1])), budget, QWEN25)
opened = open_medium(job, VideoSection(), threads=lambda: threads)
print(len(opened.frame_indices), opened.frame_indices[-1])
"""
"""Program for `peak_mib`: open a clip (path, frames, threads)."""
