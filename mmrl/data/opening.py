"""Opening one medium in this process: probe, ask the budget, decode what is wanted, resize frame by frame.

`MediaOpener` (mmrl.data.decoder) runs this in decoder processes; use that, which can kill a hanging reader.
Letters: F frames, H/W pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL
import torch

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.budget import VisionGeometry, plan_image, plan_video, sample_times, sampled_fps
from mmrl.data.image import open_image
from mmrl.data.resize import resize_frame
from mmrl.data.sample import MediaRef
from mmrl.data.source import media_errors, source_name
from mmrl.data.video import Clip, ClipInfo, open_clip, reader_version
from mmrl.errors import MediaError

MEMORY_READER = "memory"


@dataclass(frozen=True, slots=True, eq=False)
class OpenedMedia:
    """One medium as its budget wants it: the pixels and everything known about them.

    frames_F3HW: uint8 RGB after the resize (an image is F = 1; an odd clip is not padded).
    grid_thw, num_tokens: as planned, after temporal padding.
    source_size: (width, height) in original pixels, upright.
    reader: name and version of what decoded it (`pyav 18.1.0`, `pillow 13.0.0`, `memory`).
    timestamps_s: seconds of each frame after the clip's first frame. frame_indices: its place in presentation order.
    A frame that stays on screen for long may be there twice.
    source_fps, duration_s, sample_fps: of the clip; None for an image.
    missing_frames: frames of a broken clip that could not be used (only with broken_tail: use_decoded). None: nobody
        knows how many.
    """

    frames_F3HW: torch.Tensor
    grid_thw: tuple[int, int, int]
    num_tokens: int
    source_size: tuple[int, int]
    reader: str
    timestamps_s: tuple[float, ...] = ()
    frame_indices: tuple[int, ...] = ()
    source_fps: float | None = None
    duration_s: float | None = None
    sample_fps: float | None = None
    missing_frames: int | None = 0


class OpenJob(NamedTuple):
    """One medium to open under a budget; a plain tuple of the three serves as well."""

    ref: MediaRef
    budget: BudgetClass
    geometry: VisionGeometry


def open_medium(job: OpenJob, video: VideoSection) -> OpenedMedia:
    """Open a picture or clip, from a file or from memory. Raises MediaError naming it."""
    ref, budget, geometry = job
    with media_errors(source_name(ref)):
        if ref.kind == "image":
            return _open_image(ref, budget, geometry)
        if isinstance(ref.source, np.ndarray):
            clip = MemoryClip(ref.source, fps=ref.source_fps)
            return sample_clip(clip, job, reader=MEMORY_READER, broken_tail="error")
        with open_clip(Path(ref.source), reader=video.reader) as clip:
            return sample_clip(clip, job, reader=reader_version(video.reader), broken_tail=video.broken_tail)


def reader_of(ref: MediaRef, video: VideoSection) -> str:
    """Name and version of what opens a medium, for cache recipes."""
    if isinstance(ref.source, np.ndarray):
        return MEMORY_READER
    return f"pillow {PIL.__version__}" if ref.kind == "image" else reader_version(video.reader)


def _open_image(ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry) -> OpenedMedia:
    rgb_HW3 = open_image(ref.source)
    height, width = rgb_HW3.shape[:2]
    plan = plan_image(width, height, budget, geometry)
    return OpenedMedia(
        frames_F3HW=resize_frame(rgb_HW3, width=plan.width, height=plan.height).unsqueeze(0),
        grid_thw=plan.grid_thw,
        num_tokens=plan.num_tokens,
        source_size=(width, height),
        reader=MEMORY_READER if isinstance(ref.source, np.ndarray) else f"pillow {PIL.__version__}",
    )


def sample_clip(clip: Clip, job: OpenJob, *, reader: str, broken_tail: str) -> OpenedMedia:
    """The frames a budget wants of an open clip.

    A wanted frame that does not decode means that the clip is broken. Then broken_tail decides: `error` raises
    MediaError with the counts, `use_decoded` samples anew from the frames that do decode.
    """
    info = clip.info
    usable: Sequence[int] = range(info.num_frames)
    opened = None if info.missing_frames != 0 and broken_tail == "error" else _read(clip, usable, job, reader=reader)
    if opened is None:
        usable = sorted(index for index, _ in clip.frames(usable))
        _check_tail(len(usable), info, job, reader=reader, broken_tail=broken_tail)
        opened = _read(clip, usable, job, reader=reader)
    if opened is None:
        raise MediaError(source_name(job.ref), "frames that decoded at first did not decode again")
    return opened


def _check_tail(decoded: int, info: ClipInfo, job: OpenJob, *, reader: str, broken_tail: str) -> None:
    if decoded and broken_tail == "use_decoded":
        return
    remedy = (
        "data.video.broken_tail: use_decoded would sample from those" if decoded else "try another data.video.reader"
    )
    counts = f"{decoded} frames decode, how many the file has lost is unknown"
    if info.missing_frames is not None:
        counts = f"{decoded} of {info.num_frames + info.missing_frames} frames decode"
    reason = f"{counts} (reader {reader}); {remedy}"
    raise MediaError(source_name(job.ref), reason)


def _read(clip: Clip, usable: Sequence[int], job: OpenJob, *, reader: str) -> OpenedMedia | None:
    """Sample, plan, decode and resize; None if a wanted frame does not decode."""
    info = clip.info
    times_s = [info.timestamps_s[index] for index in usable]
    picked = tuple(usable[i] for i in sample_times(times_s, info.fps, job.budget, job.geometry))
    plan = plan_video(len(picked), *info.size, job.budget, job.geometry)
    frames_F3HW = torch.empty((len(picked), 3, plan.height, plan.width), dtype=torch.uint8)
    if not _fill(frames_F3HW, clip, picked, job):
        return None
    return OpenedMedia(
        frames_F3HW=frames_F3HW,
        grid_thw=plan.grid_thw,
        num_tokens=plan.num_tokens,
        source_size=info.size,
        reader=reader,
        timestamps_s=tuple(info.timestamps_s[index] for index in picked),
        frame_indices=picked,
        source_fps=info.fps,
        duration_s=info.duration_s,
        sample_fps=sampled_fps(len(picked), len(usable), info.fps),
        missing_frames=None if info.missing_frames is None else info.num_frames + info.missing_frames - len(usable),
    )


def _fill(frames_F3HW: torch.Tensor, clip: Clip, picked: Sequence[int], job: OpenJob) -> bool:
    """Decode and resize one frame at a time, so that only one is in memory at full size. False if one is missing."""
    height, width = frames_F3HW.shape[2:]
    missing = set(picked)
    for index, rgb_HW3 in clip.frames(sorted(missing)):
        size = (rgb_HW3.shape[1], rgb_HW3.shape[0])
        if size != clip.info.size:
            raise MediaError(source_name(job.ref), f"frame {index} is {size}, the clip {clip.info.size} (w, h)")
        frame_3HW = resize_frame(rgb_HW3, width=width, height=height)
        for place, wanted in enumerate(picked):
            if wanted == index:
                frames_F3HW[place] = frame_3HW
        missing.discard(index)
    return not missing


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
        times_s = tuple(index / fps for index in range(len(frames_FHW3)))
        size = (frames_FHW3.shape[2], frames_FHW3.shape[1])
        self.info = ClipInfo(times_s, start_s=0.0, size=size, rotation=0, codec="raw", container=MEMORY_READER, fps=fps)

    def frames(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See mmrl.data.video.Clip.frames."""
        return ((index, self._frames_FHW3[index]) for index in indices)

    def close(self) -> None:
        """Nothing is held open."""
