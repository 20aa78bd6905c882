"""Where a medium's bytes are: the few forms that every spelling in a dataset is reduced to. Names only, no reading.

A path (`Path`) and pixels in memory (`np.ndarray`) need no class of their own. `str()` of a place is how messages
name it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A file inside a zip or tar archive. archive: absolute path. member: its name as the archive lists it."""

    archive: Path
    member: str

    def __str__(self) -> str:
        return f"{self.archive}::{self.member}"


@dataclass(frozen=True, slots=True, eq=False)
class RawBytes:
    """A file that lies in the row itself. name: which cell holds it, and the file name that the row gives it."""

    data: bytes = field(repr=False)
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({len(self.data)} bytes in the row)"


@dataclass(frozen=True, slots=True)
class Url:
    """A file on the web. file: its copy on this machine; None before it was fetched."""

    url: str
    file: Path | None = None

    def __str__(self) -> str:
        return self.url


FileSource = Path | ArchiveMember | RawBytes | Url


@dataclass(frozen=True, slots=True)
class PdfPage:
    """One page of a PDF, drawn as a picture. page: from 1. dpi: pixels per inch of paper."""

    file: FileSource
    page: int
    dpi: int

    def __str__(self) -> str:
        return f"{self.file}#page={self.page}"


@dataclass(frozen=True, slots=True)
class FrameFiles:
    """A clip as its frames, one picture file each, in order. name: the folder, or the cell that lists them."""

    files: tuple[FileSource, ...]
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({len(self.files)} frames)"


MediaSource = FileSource | PdfPage | FrameFiles | np.ndarray
