"""Reading clips with OpenCV: from the start, frame after frame, keeping those whose time is wanted.

OpenCV can only seek by counting frames, which is wrong for variable rates; and it opens the first video stream only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from mmrl.data.video import frame_at
from mmrl.data.video_readers.pyav_reader import probe
from mmrl.errors import MediaError

# OpenCV's own FFmpeg reads this when it opens its first clip. Errors carry the reason, its log would only repeat it.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")


def version() -> str:
    return cv2.__version__


def open_clip(path: Path) -> OpencvClip:
    return OpencvClip(path)


class OpencvClip:
    """See mmrl.data.video.Clip."""

    def __init__(self, path: Path) -> None:
        self.info = probe(path)
        if self.info.video_stream:
            raise MediaError(path, "reader opencv opens only the first video stream, not the default one; use pyav")
        self._path = path

    def close(self) -> None:
        """Nothing is held open between calls."""

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See mmrl.data.video.Clip.frames."""
        wanted = set(indices)
        last = max(wanted, default=-1)
        capture = cv2.VideoCapture(str(self._path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
        try:
            for index in self._grabbed(capture):
                if index in wanted:
                    is_decoded, bgr_HW3 = capture.retrieve()
                    if is_decoded:
                        yield index, cv2.cvtColor(bgr_HW3, cv2.COLOR_BGR2RGB)
                if index == last:
                    return
        finally:
            capture.release()

    def _grabbed(self, capture: cv2.VideoCapture) -> Iterator[int | None]:
        """Which frame of the clip each frame is that OpenCV comes by; None for one that is not of the timeline."""
        count, first_s = 0, 0.0
        while capture.grab():
            time_s = capture.get(cv2.CAP_PROP_POS_MSEC) / 1000
            if count == 0:
                first_s = time_s
            yield count if self.info.synthetic_times else frame_at(self.info.timestamps_s, time_s - first_s)
            count += 1
