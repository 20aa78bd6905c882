"""Clips: the one contract that every reader keeps, and the table of readers.

A clip is a timeline (presentation time of every frame, known without decoding) and a way to decode chosen frames of
it. Frames are named by their place in presentation order and matched by presentation time, never by counting what a
decoder happens to return, so all readers deliver the same pictures. Display rotation is applied, sizes are those
after rotation. Of several video streams the container's default is taken. No reader replaces another silently.
"""

from __future__ import annotations

import bisect
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol, runtime_checkable

import numpy as np

from mmrl.data.source import check_file, first_bytes, media_errors
from mmrl.errors import ConfigError, MediaError

READERS = {
    "pyav": "mmrl.data.video_readers.pyav_reader",
    "decord": "mmrl.data.video_readers.decord_reader",
    "opencv": "mmrl.data.video_readers.opencv_reader",
    "qwen_vl_utils": "mmrl.data.video_readers.qwen_vl_utils_reader",
    "torchcodec": "mmrl.data.video_readers.torchcodec_reader",
}
"""Reader name -> module with `open_clip(path) -> Clip` and `version() -> str`. Imported when asked for."""


@dataclass(frozen=True, slots=True)
class ClipInfo:
    """What is known of a clip before a frame is decoded.

    timestamps_s: presentation time of every frame, ascending, in seconds after the first frame (which is at 0.0).
    start_s: presentation time of the first frame on the container's own clock.
    size: (width, height) in pixels as displayed, after rotation.
    rotation: degrees counter-clockwise that turn a decoded frame upright: 0, 90, 180 or 270 (already in `size`).
    codec, container: FFmpeg's names (`h264`, `mov,mp4,m4a,3gp,3g2,mj2`).
    fps: mean rate; frames / fps is the duration. The declared rate where the times agree with it.
    missing_frames: frames that the container promises and does not hold (a file cut short). None: some are missing, and
        the container does not say how many (Matroska, WebM, AVI).
    synthetic_times: the container stores no times; frame i is placed at i / fps.
    edit_list: the container holds frames that are not to be shown.
    video_stream: place of the chosen stream among the container's video streams.

    Four frames at 10 frames per second: timestamps_s (0.0, 0.1, 0.2, 0.3), fps 10.0, duration_s 0.4.
    """

    timestamps_s: tuple[float, ...]
    start_s: float
    size: tuple[int, int]
    rotation: int
    codec: str
    container: str
    fps: float
    missing_frames: int | None = 0
    synthetic_times: bool = False
    edit_list: bool = False
    video_stream: int = 0

    @property
    def num_frames(self) -> int:
        return len(self.timestamps_s)

    @property
    def duration_s(self) -> float:
        """Time from the first frame's start to the last frame's end, the last one lasting a mean frame."""
        return self.timestamps_s[-1] + 1.0 / self.fps


class Clip(Protocol):
    """An open clip. Made and closed by `open_clip`."""

    @property
    def info(self) -> ClipInfo: ...

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """(index, uint8 RGB (H, W, 3), upright) of each distinct wanted frame, in any order, one at a time in memory.

        A frame that does not decode is left out; the caller compares.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class DivisibleClip(Clip, Protocol):
    """A clip whose wanted frames can be read side by side, part by part: the same frames, bit for bit."""

    def parts(self, indices: Sequence[int]) -> list[list[int]]:
        """The distinct wanted frames in parts, ascending. `frames` decodes each of them by itself, whoever asks."""
        ...

    def twin(self) -> DivisibleClip:
        """The same file opened once more, for another thread, by what is known of it. The caller closes it."""
        ...


@contextmanager
def open_clip(path: Path, *, reader: str) -> Iterator[Clip]:
    """A clip opened with the named reader. Raises MediaError naming path, reader and reason, also while it is read."""
    check_file(path)
    module = _reader_module(reader)
    hint = f" (reader {reader}; try data.video.reader: {'pyav' if reader != 'pyav' else 'opencv'})"
    with media_errors(path, hint=hint):
        clip = module.open_clip(path)
        try:
            yield clip
        finally:
            clip.close()


def reader_version(reader: str) -> str:
    """Name and version of the library that decodes, as cache recipes and results record it: `pyav 18.1.0`."""
    return f"{reader} {_reader_module(reader).version()}"


def mean_rate(timestamps_s: Sequence[float], declared: float) -> float:
    """Mean frames per second of a timeline; the declared rate where it explains the times to half a frame.

    Containers round times (WebM to milliseconds), so the declared 30 is better than the measured 29.99. A clip of
    variable rate has no true declared rate: times 0, 1, 2 and 9 s, declared 1: 3 intervals in 9 s, so 1/3.
    """
    intervals, span = len(timestamps_s) - 1, timestamps_s[-1] - timestamps_s[0]
    if span <= 0.0 or abs(declared * span - intervals) <= 0.5:
        return declared
    return intervals / span


def frame_at(timestamps_s: Sequence[float], time_s: float) -> int | None:
    """The frame presented at time_s, as another library reports it (rounded, or as a 32-bit float); None if none is.

    Times 0.0, 0.1 and 0.2 s: 0.0999 is frame 1, 0.15 none.
    """
    after = bisect.bisect_left(timestamps_s, time_s)
    near = min(range(max(after - 1, 0), min(after + 1, len(timestamps_s))), key=lambda i: abs(timestamps_s[i] - time_s))
    gaps = [timestamps_s[i + 1] - timestamps_s[i] for i in (near - 1, near) if 0 <= i < len(timestamps_s) - 1]
    return near if abs(timestamps_s[near] - time_s) < 0.49 * min(gaps, default=1.0) else None


def not_a_clip(path: Path, reason: str) -> MediaError:
    """The error for a file that is no video at all; its first bytes tell a web page or a text from a clip."""
    return MediaError(path, f"{reason}; it starts with {first_bytes(path)}")


def _reader_module(reader: str) -> ModuleType:
    if reader not in READERS:
        raise ConfigError(f"data.video.reader: unknown reader {reader!r}; known: {', '.join(READERS)}")
    try:
        return importlib.import_module(READERS[reader])
    except ImportError as error:
        raise ConfigError(f"data.video.reader {reader!r} cannot be imported: {error}{_if_not_pyav(reader)}") from error


def _if_not_pyav(reader: str) -> str:
    """All readers probe with PyAV: where that is missing, or refuses a clip, no other reader helps."""
    return "" if reader == "pyav" else "; try data.video.reader: pyav"
