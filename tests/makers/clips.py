"""Small clips whose every frame shows its own index, so that a wrong frame is recognised from its pixels.

The upper half of a frame is ten bars, the bits of the index (white is 1, the highest bit on the left); the lower half
is gray. Read upright, at any size and after lossy coding, `shown_index` gives the number back.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

BITS = 10
GRAY = 100
TICKS = 90_000  # per second
_COUNTED = ("gif", "mpeg4")  # codecs whose time unit is one frame


def numbered_frame(index: int, *, width: int = 80, height: int = 48) -> np.ndarray:
    """uint8 RGB (height, width, 3) showing an index below 1024."""
    frame = np.full((height, width, 3), GRAY, dtype=np.uint8)
    bits = [(index >> (BITS - 1 - bit)) & 1 for bit in range(BITS)]
    columns = np.arange(width) * BITS // width
    frame[: height // 2] = np.where(np.array(bits)[columns, None], 255, 0)
    return frame


def shown_index(rgb_HW3: np.ndarray) -> int:
    """The index a frame shows; -1 if it stands upside down, on its side, or shows something else."""
    height, width = rgb_HW3.shape[:2]
    gray = rgb_HW3.mean(axis=2)
    lower = gray[height * 5 // 8 : height * 7 // 8, width // 8 : width * 7 // 8]
    if abs(lower.mean() - GRAY) > 25 or lower.std() > 25:
        return -1
    centres = ((np.arange(BITS) + 0.5) * width / BITS).astype(int)
    bits = [gray[height // 8 : height * 3 // 8, centre].mean() > 127 for centre in centres]
    return sum(int(bit) << (BITS - 1 - place) for place, bit in enumerate(bits))


@dataclass(frozen=True)
class ClipSpec:
    """A clip to write. times_s: presentation times (None: constant rate). hidden: leading frames cut by an edit list.

    rotation: degrees counter-clockwise a player turns the stored frames by; they are stored turned the other way.
    first: index shown by the first frame.
    """

    frames: int = 30
    fps: int = 10
    codec: str = "libx264"
    pix_fmt: str = "yuv420p"
    width: int = 80
    height: int = 48
    gop: int = 12
    b_frames: int = 2
    times_s: tuple[float, ...] | None = None
    rotation: int = 0
    hidden: int = 0
    start_s: float = 0.0
    first: int = 0
    open_gop: bool = False
    fast_start: bool = True
    format: str | None = None

    def ticks(self) -> list[int]:
        times_s = self.times_s or [index / self.fps for index in range(self.frames)]
        shift = self.start_s - self.hidden / self.fps
        return [round((time_s + shift) * TICKS) for time_s in times_s]


def write_clip(path: Path, spec: ClipSpec) -> Path:
    """Write one video stream."""
    return write_streams(path, [spec])


def write_streams(path: Path, specs: list[ClipSpec], *, default: int = 0) -> Path:
    """Write several video streams into one container; the default one is what players show."""
    mov = path.suffix == ".mp4" and specs[0].fast_start
    options = {"movflags": "faststart"} if mov else {}
    with av.open(str(path), "w", format=specs[0].format, options=options) as container:
        streams = [_add_stream(container, spec) for spec in specs]
        for place, stream in enumerate(streams):
            if len(streams) > 1:
                stream.disposition = av.stream.Disposition.default if place == default else 0
        for stream, spec in zip(streams, specs, strict=True):
            _encode(container, stream, spec)
    return path


def cut_file(path: Path, *, keep: float) -> Path:
    """Keep only the first part of a file."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    return path


def _add_stream(container, spec: ClipSpec):
    stream = container.add_stream(spec.codec, rate=spec.fps)
    stream.width, stream.height, stream.pix_fmt = spec.width, spec.height, spec.pix_fmt
    if spec.rotation in (90, 270):
        stream.width, stream.height = spec.height, spec.width
    if spec.codec not in _COUNTED:
        stream.codec_context.time_base = Fraction(1, TICKS)
    stream.codec_context.gop_size = spec.gop
    if spec.codec in ("libx264", "libx265", "mpeg4"):
        stream.codec_context.max_b_frames = spec.b_frames
    if spec.codec == "libx264":
        x264 = "scenecut=0:open-gop=1:b-pyramid=1" if spec.open_gop else "scenecut=0"
        stream.codec_context.options = {"crf": "20", "x264-params": x264}
    if spec.codec == "libx265":
        stream.codec_context.options = {"x265-params": f"log-level=none:keyint={spec.gop}:bframes={spec.b_frames}"}
    if spec.rotation:
        stream.set_display_rotation(spec.rotation)
    return stream


def _encode(container, stream, spec: ClipSpec) -> None:
    for index, tick in enumerate(spec.ticks()):
        shown = numbered_frame(spec.first + index, width=spec.width, height=spec.height)
        stored = np.ascontiguousarray(np.rot90(shown, -spec.rotation // 90))
        frame = av.VideoFrame.from_ndarray(stored, format="rgb24")
        frame.pts, frame.time_base = tick, Fraction(1, TICKS)
        if spec.codec in _COUNTED:
            frame.pts, frame.time_base = index, Fraction(1, spec.fps)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))
