"""What a run has to do: the media of its part, the largest sources first.

Workers take from one list as they become free. With the largest first none of them is left at the end with a large
file while the others have nothing.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmrl.config.schema import DataSection, RunConfig
from mmrl.data.file_bytes import source_size
from mmrl.data.fingerprint import hash_pixels
from mmrl.data.locations import ArchiveMember, FileSource, FrameFiles, PdfPage, RawBytes
from mmrl.data.preprocess.media import Medium, named_media
from mmrl.data.preprocess.outcome import Failure
from mmrl.data.preprocess.shards import Shard
from mmrl.data.sample import MediaRef
from mmrl.data.skipped import SkippedLog


@dataclass(frozen=True, slots=True)
class Work:
    """A medium and the bytes of its source; 0 where there is none to be read."""

    medium: Medium
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A data section: the work of this part, all media of all parts, rows of this part that cannot be used."""

    data: DataSection
    own: list[Work]
    media: list[Medium]
    bad_rows: list[Failure]

    @property
    def size(self) -> int:
        return sum(work.size for work in self.own)


def list_work(config: RunConfig, data: DataSection, shard: Shard) -> Listing:
    """Read the rows of a data section. Bad rows and missing files are no error here, whatever the section says."""
    lenient = data.model_copy(update={"bad_row": "skip", "bad_media": "skip"})
    skipped = SkippedLog(None, max_fraction=1.0)
    own, media = [], []
    for medium, ref in named_media(config, lenient, skipped=skipped):
        media.append(medium)
        if shard.count == 1 or shard.holds(stable_name(ref, beside=Path(medium.section.path))):
            own.append(Work(medium, source_size(ref)))
    own.sort(key=lambda work: -work.size)
    rows = [Failure(row.path, row.where, row.reason) for row in skipped.rows]
    return Listing(data, own, media, [row for row in rows if shard.count == 1 or shard.holds(row.where)])


def stable_name(ref: MediaRef, *, beside: Path) -> str:
    """What a medium's source is called on every machine: its place as seen from the data file, or its content.

    All parts of a clip and all pages of a document have one name: their file is hashed once.
    `/data/set/clips/a.mp4` beside `/data/set/train.jsonl` is `clips/a.mp4`.
    """
    source = ref.source
    if isinstance(source, np.ndarray):
        return hash_pixels(source, source_fps=ref.source_fps).sha256
    if isinstance(source, FrameFiles):
        return "\n".join(_file_name(file, beside) for file in source.files)
    return _file_name(source.file if isinstance(source, PdfPage) else source, beside)


def _file_name(source: FileSource, beside: Path) -> str:
    if isinstance(source, RawBytes):
        return hashlib.sha256(source.data).hexdigest()
    if isinstance(source, ArchiveMember):
        return f"{os.path.relpath(source.archive, beside.parent)}::{source.member}"
    return os.path.relpath(source, beside.parent) if isinstance(source, Path) else str(source)
