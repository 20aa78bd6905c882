"""Media as a budget wants them, from their headers alone: what the cache would hold, without a pixel of it.

`HeaderCache` stands where a PixelCache stands (mmrl.data.prepare): prompts are rendered, shrunk and refused by the code
of training, over entries whose frames are on the meta device. A file's header is read once, whatever budgets are tried.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.cache import Opener
from mmrl.data.downloads import FOLDER as DOWNLOADS
from mmrl.data.downloads import fetched
from mmrl.data.file_bytes import as_path
from mmrl.data.fingerprint import hash_pixels
from mmrl.data.frame_clips import FrameFilesClip, MemoryClip
from mmrl.data.locations import FrameFiles, PdfPage, RawBytes
from mmrl.data.opening import OpenedMedia, OpenJob, picture_size, planned_clip, planned_image, reader_of, span_frames
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import MediaRef
from mmrl.data.source import media_errors, source_name
from mmrl.data.video import ClipInfo
from mmrl.data.vision import VisionGeometry
from mmrl.errors import MediaError

_THREADS = 8  # headers wait for the disk
Header = tuple[int, int] | ClipInfo
"""(width, height) of a picture; a clip's timeline and size."""


class HeaderCache:
    """See the module. folder: of the run's cache, where media on the web may have been fetched to before.

    inexact: media whose frames can be told by decoding only (a broken clip under `broken_tail: use_decoded`).
    """

    def __init__(self, folder: Path, video: VideoSection) -> None:
        self.folder, self.video = folder, video
        self.inexact: set[str] = set()
        self._headers: dict[Any, Header | MediaError] = {}
        self._entries: dict[Any, MediaEntry | MediaError] = {}

    def local(self, ref: MediaRef) -> MediaRef:
        """As of PixelCache; nothing is fetched."""
        return fetched(ref, self.folder / DOWNLOADS, may_fetch=False)

    def get(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry, opener: Opener) -> MediaEntry:
        """As of PixelCache."""
        del opener
        entry = self._entry(OpenJob(ref, budget, geometry))
        if isinstance(entry, MediaError):
            raise entry
        return entry

    def get_many(self, jobs: Iterable[OpenJob], opener: Opener) -> Iterator[tuple[int, MediaEntry | MediaError]]:
        """As of PixelCache; headers that are not known yet are read by several threads."""
        del opener
        jobs = list(jobs)
        new = {_file_key(job.ref): job.ref for job in jobs if _file_key(job.ref) not in self._headers}
        with ThreadPoolExecutor(min(_THREADS, max(1, len(new)))) as pool:
            self._headers.update(zip(new, pool.map(self._header, new.values()), strict=True))
        return ((index, self._entry(job)) for index, job in enumerate(jobs))

    def source_frames(self, ref: MediaRef) -> tuple[int, tuple[int, int]]:
        """Frames of the part that a medium shows (1 of a picture), and (width, height) of one, at the source."""
        header = self._known_header(ref)
        assert not isinstance(header, MediaError), "only media that could be planned are asked for"
        if isinstance(header, ClipInfo):
            return len(span_frames(header, ref)), header.size
        return 1, header

    def _entry(self, job: OpenJob) -> MediaEntry | MediaError:
        key = (_file_key(job.ref), job.ref.start_s, job.ref.end_s, job.budget, job.geometry)
        if key not in self._entries:
            self._entries[key] = self._planned(job)
        return self._entries[key]

    def _planned(self, job: OpenJob) -> MediaEntry | MediaError:
        header = self._known_header(job.ref)
        if isinstance(header, MediaError):
            return header
        try:
            with media_errors(source_name(job.ref)):
                return _entry_of(job, self._opened(header, job), number=len(self._entries))
        except MediaError as error:
            return error

    def _opened(self, header: Header, job: OpenJob) -> OpenedMedia:
        if not isinstance(header, ClipInfo):
            return planned_image(header, job)[0]
        if header.missing_frames != 0:
            if self.video.broken_tail == "error":
                raise MediaError(source_name(job.ref), "frames are missing at its end; see data.video.broken_tail")
            self.inexact.add(source_name(job.ref))
        span = span_frames(header, job.ref)
        return planned_clip(header, span, job, reader=reader_of(job.ref, self.video))[0]

    def _known_header(self, ref: MediaRef) -> Header | MediaError:
        key = _file_key(ref)
        if key not in self._headers:
            self._headers[key] = self._header(ref)
        return self._headers[key]

    def _header(self, ref: MediaRef) -> Header | MediaError:
        try:
            with media_errors(source_name(ref)):
                return read_header(self.local(ref))
        except MediaError as error:
            return error


def read_header(ref: MediaRef) -> Header:
    """Size of a picture, or timeline and size of a clip; no frame but a clip's first is decoded. Raises MediaError."""
    if ref.kind == "image":
        return picture_size(ref)
    source = ref.source
    assert not isinstance(source, PdfPage)
    if isinstance(source, np.ndarray):
        return MemoryClip(source, fps=ref.source_fps).info
    if isinstance(source, FrameFiles):
        return FrameFilesClip(source, fps=ref.source_fps).info
    from mmrl.data.video_readers.pyav_reader import probe  # every reader probes with it

    with as_path(source) as path:
        return probe(path)


def _file_key(ref: MediaRef) -> Any:
    """What the header of a medium depends on. Bytes and pixels in rows are named by their hash, and not kept."""
    return _source_key(ref.source), ref.kind, ref.source_fps


def _source_key(source: Any) -> Any:
    if isinstance(source, np.ndarray):
        return hash_pixels(source).sha256
    if isinstance(source, RawBytes):
        return hashlib.sha256(source.data).hexdigest()
    if isinstance(source, FrameFiles):
        return tuple(map(_source_key, source.files))
    return (_source_key(source.file), source.page, source.dpi) if isinstance(source, PdfPage) else source


def _entry_of(job: OpenJob, opened: OpenedMedia, *, number: int) -> MediaEntry:
    return MediaEntry(
        key=f"planned {number}",
        kind=job.ref.kind,
        frames_F3HW=opened.frames_F3HW,
        grid_thw=opened.grid_thw,
        num_tokens=opened.num_tokens,
        source_size=opened.source_size,
        timestamps_s=opened.timestamps_s,
        frame_indices=opened.frame_indices,
        source_fps=opened.source_fps,
        duration_s=opened.duration_s,
        sample_fps=opened.sample_fps,
    )
