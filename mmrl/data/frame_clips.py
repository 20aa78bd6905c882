"""Clips that no video reader opens: frames made in memory, and frames that are picture files of their own.

Letters: F frames, H/W pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mmrl.data.image import image_size, open_image
from mmrl.data.locations import FrameFiles
from mmrl.data.video import ClipInfo
from mmrl.errors import MediaError


class MemoryClip:
    """A clip made in memory, uint8 RGB (F, H, W, 3) at a constant rate, under the contract of a reader."""

    def __init__(self, frames_FHW3: np.ndarray, *, fps: float | None) -> None:
        name = f"video in memory, shape {frames_FHW3.shape}, {frames_FHW3.dtype}"
        if frames_FHW3.ndim != 4 or frames_FHW3.shape[3] != 3 or frames_FHW3.dtype != np.uint8:
            raise MediaError(name, "expected uint8 (F, H, W, 3) with the channels last")
        if 0 in frames_FHW3.shape:
            raise MediaError(name, "holds no pixels")
        if not fps or fps <= 0:
            raise MediaError(name, f"source_fps must be its frames per second, not {fps}")
        self._frames_FHW3 = frames_FHW3
        self.info = constant_rate(len(frames_FHW3), (frames_FHW3.shape[2], frames_FHW3.shape[1]), fps)

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See mmrl.data.video.Clip.frames."""
        return ((index, self._frames_FHW3[index]) for index in indices)

    def close(self) -> None:
        """Nothing is held open."""


class FrameFilesClip:
    """Picture files shown one after the other at a constant rate, under the contract of a reader."""

    def __init__(self, frames: FrameFiles, *, fps: float | None) -> None:
        if not fps or fps <= 0:
            raise MediaError(frames, f"source_fps must be the frames' own frames per second, not {fps}")
        self._files = frames.files
        size = image_size(frames.files[0])
        for file in frames.files[1:]:
            other = image_size(file)
            if other != size:
                sizes = f"{other[0]}x{other[1]} pixels, the first frame {size[0]}x{size[1]}"
                raise MediaError(frames, f"frames of different sizes: {file} has {sizes}")
        self.info = constant_rate(len(frames.files), size, fps)

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See mmrl.data.video.Clip.frames. A frame that cannot be opened is an error that names its file."""
        return ((index, open_image(self._files[index])) for index in indices)

    def close(self) -> None:
        """Nothing is held open."""


def constant_rate(count: int, size: tuple[int, int], fps: float) -> ClipInfo:
    """What is known of `count` upright frames of one size, (width, height), shown at one rate."""
    times_s = tuple(index / fps for index in range(count))
    return ClipInfo(times_s, start_s=0.0, size=size, rotation=0, codec="raw", container="none", fps=fps)
