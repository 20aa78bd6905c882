"""Opening one medium in this process: probe, ask the budget, decode what is wanted, resize frame by frame.

`MediaOpener` (mmrl.data.decoder) runs this in decoder processes; use that, which can kill a hanging reader.
Letters: F frames, H/W pixels.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import PIL
import torch

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.budget import plan_image, plan_video, sample_times, sampled_fps
from mmrl.data.file_bytes import as_path
from mmrl.data.frame_clips import FrameFilesClip, MemoryClip
from mmrl.data.image import MAX_SOURCE_PIXELS, image_size, open_image, rgb_from_array
from mmrl.data.locations import FrameFiles, PdfPage
from mmrl.data.parts import Threads, one_thread, read_parts
from mmrl.data.pdf import page_size, renderer
from mmrl.data.sample import MediaRef
from mmrl.data.source import media_errors, source_name
from mmrl.data.video import Clip, ClipInfo, mean_rate, open_clip, reader_version
from mmrl.data.vision import MediaPlan, VisionGeometry
from mmrl.errors import MediaError

MEMORY_READER = "memory"

TIME_TOLERANCE_S = 0.0005
"""A frame this little before the start of a span is in it: Matroska and WebM round times to milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenedMedia:
    """One medium as its budget wants it: the pixels and everything known about them.

    frames_F3HW: uint8 RGB after the resize (an image is F = 1; an odd clip is not padded).
    grid_thw, num_tokens: as planned, after temporal padding.
    source_size: (width, height) in original pixels, upright.
    reader: name and version of what decoded it (`pyav 18.1.0`, `pillow 13.0.0`, `memory`).
    timestamps_s: seconds of each frame after the clip's first frame, or after start_s where the medium has one.
    frame_indices: its place in presentation order, in the whole clip. A frame that stays on screen for long may be
        there twice.
    source_fps, sample_fps: of the clip; None for an image. duration_s: of the part that is shown.
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


def open_medium(job: OpenJob, video: VideoSection, *, threads: Threads = one_thread) -> OpenedMedia:
    """Open a picture or clip, from wherever its bytes are. Raises MediaError naming it.

    threads: how many may read a long clip; the frames do not depend on it.
    """
    with media_errors(source_name(job.ref)):
        if job.ref.kind == "image":
            return _open_image(*job)
        return _open_clip(job, video, threads)


def reader_of(ref: MediaRef, video: VideoSection) -> str:
    """Name and version of what opens a medium, for cache recipes."""
    if isinstance(ref.source, np.ndarray):
        return MEMORY_READER
    if isinstance(ref.source, PdfPage):
        return renderer()
    is_picture = ref.kind == "image" or isinstance(ref.source, FrameFiles)
    return f"pillow {PIL.__version__}" if is_picture else reader_version(video.reader)


def _open_clip(job: OpenJob, video: VideoSection, threads: Threads) -> OpenedMedia:
    source, reader = job.ref.source, reader_of(job.ref, video)
    assert not isinstance(source, PdfPage)
    if isinstance(source, np.ndarray):
        return sample_clip(MemoryClip(source, fps=job.ref.source_fps), job, reader=reader, broken_tail="error")
    if isinstance(source, FrameFiles):
        return sample_clip(FrameFilesClip(source, fps=job.ref.source_fps), job, reader=reader, broken_tail="error")
    with as_path(source) as path, open_clip(path, reader=video.reader) as clip:
        return sample_clip(clip, job, reader=reader, broken_tail=video.broken_tail, threads=threads)


def _open_image(ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry) -> OpenedMedia:
    assert not isinstance(ref.source, FrameFiles)
    rgb_HW3 = open_image(ref.source)
    height, width = rgb_HW3.shape[:2]
    planned, plan = planned_image((width, height), OpenJob(ref, budget, geometry))
    return replace(planned, frames_F3HW=geometry.image_frames(rgb_HW3, plan))


def planned_image(size: tuple[int, int], job: OpenJob) -> tuple[OpenedMedia, MediaPlan]:
    """What a picture of (width, height) pixels becomes; its frames are on the meta device."""
    plan = plan_image(*size, job.budget, job.geometry)
    shape = (plan.grid_thw[0], 3, *job.geometry.frame_size(plan.grid_thw))
    return OpenedMedia(
        frames_F3HW=torch.empty(shape, dtype=torch.uint8, device="meta"),
        grid_thw=plan.grid_thw,
        num_tokens=plan.num_tokens,
        source_size=size,
        reader=reader_of(job.ref, VideoSection()),
    ), plan


def sample_clip(
    clip: Clip, job: OpenJob, *, reader: str, broken_tail: str, threads: Threads = one_thread
) -> OpenedMedia:
    """The frames a budget wants of an open clip, of the part that the medium names.

    A wanted frame that does not decode means that the clip is broken. Then broken_tail decides: `error` raises
    MediaError with the counts, `use_decoded` samples anew from the frames that do decode.
    """
    info = clip.info
    span = span_frames(info, job.ref)
    is_whole = info.missing_frames == 0 or broken_tail != "error"
    opened = _read(clip, span, job, reader=reader, threads=threads) if is_whole else None
    if opened is not None:
        return replace(opened, missing_frames=info.missing_frames)
    decoded = sorted(index for index, _ in clip.frames(range(info.num_frames)))
    _check_tail(len(decoded), info, job, reader=reader, broken_tail=broken_tail)
    opened = _read(clip, [index for index in decoded if index in span], job, reader=reader, threads=threads)
    if opened is None:
        raise MediaError(source_name(job.ref), "frames that decoded at first did not decode again")
    missing = None if info.missing_frames is None else info.num_frames + info.missing_frames - len(decoded)
    return replace(opened, missing_frames=missing)


def span_frames(info: ClipInfo, ref: MediaRef) -> range:
    """The frames of a clip that are presented from start_s until before end_s. MediaError where there are none.

    Ten frames a second, 0.5 to 1.0 s: frames 5 to 9. An end beyond the end of the clip means its end. Times are
    compared to half a millisecond, for Matroska and WebM store whole ones.
    """
    if ref.start_s is None and ref.end_s is None:
        return range(info.num_frames)
    start_s, end_s = ref.start_s or 0.0, info.duration_s if ref.end_s is None else ref.end_s
    if start_s > info.duration_s - TIME_TOLERANCE_S:
        reason = f"start_s {start_s:g} lies beyond the end of the clip, which lasts {info.duration_s:g} s"
        raise MediaError(source_name(ref), reason)
    first, end = (bisect.bisect_left(info.timestamps_s, time_s - TIME_TOLERANCE_S) for time_s in (start_s, end_s))
    if first >= end:
        before = f"; the last one before starts at {info.timestamps_s[first - 1]:g} s" if first else ""
        raise MediaError(source_name(ref), f"no frame starts between {start_s:g} and {end_s:g} s{before}")
    return range(first, end)


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


def _read(clip: Clip, usable: Sequence[int], job: OpenJob, *, reader: str, threads: Threads) -> OpenedMedia | None:
    """Sample, plan, decode and resize; None if a wanted frame does not decode."""
    planned, plan = planned_clip(clip.info, usable, job, reader=reader)
    frames_F3HW = torch.empty(planned.frames_F3HW.shape, dtype=torch.uint8)
    if not _fill(frames_F3HW, clip, planned.frame_indices, job, plan, threads):
        return None
    return replace(planned, frames_F3HW=frames_F3HW)


def planned_clip(info: ClipInfo, usable: Sequence[int], job: OpenJob, *, reader: str) -> tuple[OpenedMedia, MediaPlan]:
    """What a clip becomes, by what is known before a frame is decoded; its frames are on the meta device.

    usable: the frames that may be taken, see `span_frames`.
    """
    start_s = job.ref.start_s or 0.0
    times_s = [info.timestamps_s[index] for index in usable]
    fps = info.fps if len(times_s) == info.num_frames else mean_rate(times_s, info.fps)
    picked = tuple(usable[i] for i in sample_times(times_s, fps, job.budget, job.geometry))
    plan = plan_video(len(picked), *info.size, job.budget, job.geometry)
    return OpenedMedia(
        frames_F3HW=torch.empty((len(picked), 3, plan.height, plan.width), dtype=torch.uint8, device="meta"),
        grid_thw=plan.grid_thw,
        num_tokens=plan.num_tokens,
        source_size=info.size,
        reader=reader,
        timestamps_s=tuple(info.timestamps_s[index] - start_s for index in picked),
        frame_indices=picked,
        source_fps=info.fps,
        duration_s=min(info.duration_s, job.ref.end_s or math.inf) - start_s,
        sample_fps=sampled_fps(len(picked), len(usable), fps),
    ), plan


def _fill(
    frames_F3HW: torch.Tensor, clip: Clip, picked: Sequence[int], job: OpenJob, plan: MediaPlan, threads: Threads
) -> bool:
    """Decode and resize one frame at a time, so that a thread holds one at full size. False if one is missing."""
    places: dict[int, list[int]] = {}
    for place, index in enumerate(picked):
        places.setdefault(index, []).append(place)
    missing = set(places)

    def read(clip: Clip, part: Sequence[int]) -> None:
        for index, rgb_HW3 in clip.frames(part):
            size = (rgb_HW3.shape[1], rgb_HW3.shape[0])
            if size != clip.info.size:
                raise MediaError(source_name(job.ref), f"frame {index} is {size}, the clip {clip.info.size} (w, h)")
            frames_F3HW[places[index]] = job.geometry.clip_frame(rgb_HW3, plan)
            missing.discard(index)

    read_parts(clip, sorted(places), read, threads=threads)
    return not missing


def picture_size(ref: MediaRef) -> tuple[int, int]:
    """(width, height) of a picture in source pixels, upright, of a file from its header alone."""
    source = ref.source
    assert not isinstance(source, FrameFiles)
    if isinstance(source, np.ndarray):
        height, width = rgb_from_array(source).shape[:2]
        return width, height
    if isinstance(source, PdfPage):
        return page_size(source, max_pixels=MAX_SOURCE_PIXELS)
    return image_size(source)
