"""Reading clips through qwen-vl-utils (its decord backend), for runs that must see what that package sees.

That package chooses frames itself, evenly from first to last, at least two. Where those are the wanted ones, one call
gets them. Else each wanted frame is the first or last of a window of two, at the price of opening the clip each time.
Clips of one frame it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version as package_version
from pathlib import Path

import numpy as np
import torch
from qwen_vl_utils.vision_process import VIDEO_READER_BACKENDS

from mmrl.data.video_readers.decord_reader import DecordClip
from mmrl.errors import MediaError

_SEEKS_RIGHT = frozenset({"h264", "vp8", "vp9"})
"""Codecs in which decord's seeking, which that package relies on, was found exact."""


def version() -> str:
    return package_version("qwen-vl-utils")


def open_clip(path: Path) -> QwenVlUtilsClip:
    return QwenVlUtilsClip(path)


class QwenVlUtilsClip(DecordClip):
    """See mmrl.data.video.Clip. Finds frames as decord does, fetches them through qwen-vl-utils."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if self.info.codec not in _SEEKS_RIGHT:
            raise MediaError(path, f"reader qwen_vl_utils may return wrong frames of {self.info.codec}; use pyav")
        self._count, self._fps = len(self._reader), self._reader.get_avg_fps()
        if self._count < 2:
            raise MediaError(path, "reader qwen_vl_utils needs two frames, the clip has one; use pyav")

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See mmrl.data.video.Clip.frames."""
        wanted = [index for index in sorted(set(indices)) if index in self._place_of]
        places = [self._place_of[index] for index in wanted]
        even = torch.linspace(0, self._count - 1, len(places)).round().long().tolist()
        if places and places == even and len(places) % 2 == 0:
            yield from zip(wanted, self._fetch({"nframes": len(places)}), strict=True)
            return
        for index, place in zip(wanted, places, strict=True):
            start = min(place, self._count - 2)
            # The package rounds the start up and the end down to whole frames.
            window = {"video_start": (start - 0.25) / self._fps, "video_end": (start + 1.25) / self._fps, "nframes": 2}
            yield index, self._fetch(window)[place - start]

    def _fetch(self, choice: dict[str, float]) -> np.ndarray:
        video_FCHW = VIDEO_READER_BACKENDS["decord"]({"video": str(self._path), **choice})[0]
        return video_FCHW.permute(0, 2, 3, 1).numpy()
