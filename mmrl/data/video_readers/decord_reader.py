"""Reading clips with decord, frame after frame. Frames are found by decord's own times, never by its count of frames.

Decord's seeking and skipping are never used: they land on other frames than asked for in HEVC and MPEG-4 part 2 with B
frames, silently. Edit lists and the times of MPEG-TS and AVI it reads wrongly altogether, so such clips
are refused. It can also spin forever at the end of a broken file: the deadline of the decoder process ends that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import decord
import numpy as np

from mmrl.data.video import ClipInfo, frame_at
from mmrl.data.video_readers.pyav_reader import probe
from mmrl.errors import MediaError

_EXACT_CONTAINERS = ("mov", "matroska")

decord.logging.set_level(decord.logging.QUIET)


def version() -> str:
    return decord.__version__


def open_clip(path: Path) -> DecordClip:
    return DecordClip(path)


class DecordClip:
    """See mmrl.data.video.Clip."""

    def __init__(self, path: Path) -> None:
        self.info = probe(path)
        _check_exact(self.info, path)
        self._path = path
        self._reader = decord.VideoReader(str(path), ctx=decord.cpu(0), num_threads=1)
        self._place_of = _match_times(self._reader, self.info)

    def close(self) -> None:
        del self._reader

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See mmrl.data.video.Clip.frames."""
        wanted = {self._place_of[index]: index for index in indices if index in self._place_of}
        self._reader.seek(0)
        for place in range(max(wanted, default=-1) + 1):
            try:
                frame = self._reader.next()
            except (decord.DECORDError, StopIteration):
                return
            if place in wanted:
                yield wanted[place], self._pixels(frame)

    def _pixels(self, frame: Any) -> np.ndarray:
        rgb_HW3 = frame.asnumpy()
        if rgb_HW3.shape[2] != 3:
            raise MediaError(self._path, f"reader decord returns {rgb_HW3.shape[2]} channels for so narrow a clip")
        return rgb_HW3


def _check_exact(info: ClipInfo, path: Path) -> None:
    if info.edit_list:
        raise MediaError(path, "reader decord shows the frames that the edit list hides; use data.video.reader: pyav")
    if not any(name in info.container for name in _EXACT_CONTAINERS):
        reason = f"reader decord is exact for MP4, MOV, Matroska and WebM only, not for {info.container}"
        raise MediaError(path, f"{reason}; use data.video.reader: pyav")


def _match_times(reader: decord.VideoReader, info: ClipInfo) -> dict[int, int]:
    """Place in decord's list of each frame of the clip."""
    starts_s = reader.get_frame_timestamp(range(len(reader)))[:, 0].tolist()
    found = ((frame_at(info.timestamps_s, time_s - starts_s[0]), place) for place, time_s in enumerate(starts_s))
    return {index: place for index, place in found if index is not None}
