"""How much a run will write, before it writes anything: sizes by headers alone, of a sample where media are many."""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmrl.config.schema import VideoSection
from mmrl.data.cache import PixelCache
from mmrl.data.file_bytes import as_path
from mmrl.data.frame_clips import MemoryClip, constant_rate
from mmrl.data.image import image_size
from mmrl.data.locations import FrameFiles, PdfPage
from mmrl.data.opening import OpenedMedia, OpenJob, picture_size, planned_clip, planned_image, span_frames
from mmrl.data.source import media_errors, source_name
from mmrl.data.video_readers.header import header_info
from mmrl.errors import CacheError, MediaError

SAMPLE = {"image": 500, "video": 100}
"""Media whose headers are read, of each kind: a picture's takes 0.3 ms, a clip's 5."""

HEADER_BYTES = 1200
"""What an entry takes beside its pixels."""


@dataclass(frozen=True, slots=True)
class Need:
    """What all media together will take on the disk.

    new_bytes: of media that have no entry. sampled: media that were looked at. unsized: those among them that told no
    size, counted as the others of their kind.
    """

    media: int
    new_bytes: int
    sampled: int
    unsized: int

    @property
    def text(self) -> str:
        how = f" (by the headers of {self.sampled} of them)" if self.sampled < self.media else ""
        unknown = f"; {self.unsized} tell no size" if self.unsized else ""
        return f"{self.media} media, about {_size(self.new_bytes)} to be written{how}{unknown}"


def estimate(
    kinds: Sequence[str], job: Callable[[int], OpenJob], cache: PixelCache, videos: Sequence[VideoSection]
) -> Need:
    """What media will take. kinds: of each medium; job, videos: how one is opened, by its place among them."""
    by_kind: dict[str, list[int]] = defaultdict(list)
    for place, kind in enumerate(kinds):
        by_kind[kind].append(place)
    new_bytes, sampled, unsized = 0.0, 0, 0
    for kind, places in sorted(by_kind.items()):
        looked_at = places if len(places) <= SAMPLE[kind] else random.Random(0).sample(places, SAMPLE[kind])
        sizes = [_to_be_written(job(place), cache, videos[place]) for place in looked_at]
        known = [size for size in sizes if size is not None]
        sampled, unsized = sampled + len(sizes), unsized + len(sizes) - len(known)
        new_bytes += sum(known) / max(len(known), 1) * len(places)
    return Need(len(kinds), round(new_bytes), sampled, unsized)


def _to_be_written(job: OpenJob, cache: PixelCache, video: VideoSection) -> int | None:
    """Bytes; 0 for a medium that has an entry or cannot be opened, None for one whose size nobody tells."""
    try:
        ref = cache.local(job.ref, may_fetch=False)
    except MediaError:
        return None
    try:
        if cache.hashes.knows(ref) and cache.store.find(cache.request(job, video).key) is not None:
            return 0
        return planned_bytes(OpenJob(ref, job.budget, job.geometry))
    except (MediaError, CacheError):
        return 0


def planned_bytes(job: OpenJob) -> int | None:
    """Bytes of the entry of a medium, from its header. None: it tells no length. Raises MediaError."""
    with media_errors(source_name(job.ref)):
        is_picture = job.ref.kind == "image"
        planned = planned_image(picture_size(job.ref), job)[0] if is_picture else _planned_clip(job)
    return None if planned is None else HEADER_BYTES + planned.frames_F3HW.numel()


def _planned_clip(job: OpenJob) -> OpenedMedia | None:
    source = job.ref.source
    if isinstance(source, np.ndarray):
        info = MemoryClip(source, fps=job.ref.source_fps).info
    elif isinstance(source, FrameFiles):
        info = constant_rate(len(source.files), image_size(source.files[0]), job.ref.source_fps or 1.0)
    else:
        assert not isinstance(source, PdfPage)
        with as_path(source) as path:
            info = header_info(path)
    return None if info is None else planned_clip(info, span_frames(info, job.ref), job, reader="header")[0]


def check_room(need: Need, cache: PixelCache, *, max_gb: float | None) -> int:
    """Raise CacheError where a run would not fit on the disk or under cache.max_gb. Returns the bytes there now.

    Those are counted only where there is a limit for them.
    """
    place = next(folder for folder in (cache.folder, *cache.folder.resolve().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    lower = "lower max_pixels or max_frames of a budget"
    if need.new_bytes > free:
        told = f"{need.text}, but {_size(free)} are free"
        raise CacheError(f"{cache.folder}: {told}; make room, {lower}, or name another cache.dir")
    if max_gb is None:
        return 0
    there = sum(stored.size for stored in cache.store.items())
    if there + need.new_bytes > max_gb * 1e9:
        told = f"{need.text} beside {_size(there)} there, above cache.max_gb {max_gb:g}"
        raise CacheError(f"{cache.folder}: {told}; nothing was written; raise it, {lower}, or `mmrl cache prune`")
    return there


def free_text(folder: Path) -> str:
    """`38.0 GB free`."""
    return f"{_size(shutil.disk_usage(folder).free)} free"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
