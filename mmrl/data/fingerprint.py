"""Content hashes of source files, remembered so that an unchanged file is read for hashing once in its life.

The memory is keyed by (real path, size, mtime_ns, inode) and lives in an append-only text file, one JSON list a line.
Any number of processes may append: a line is one write, and a line torn by a kill is skipped when read.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmrl.data.archives import find_member, read_member, splits
from mmrl.data.file_bytes import on_disk
from mmrl.data.locations import ArchiveMember, FileSource, FrameFiles, PdfPage, RawBytes
from mmrl.data.sample import MediaRef
from mmrl.errors import MediaError

# A file written less than this ago may be written again without its mtime moving: clocks of file systems are coarse.
SETTLED_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What identifies a source's content: sha256 (hex) and size in bytes."""

    sha256: str
    size: int

    def fields(self) -> dict[str, str | int]:
        """As JSON has it; `Fingerprint(**fields)` is the way back."""
        return {"sha256": self.sha256, "size": self.size}

    @property
    def text(self) -> str:
        """The fields as an entry stores them."""
        return f'{{"sha256":"{self.sha256}","size":{self.size}}}'


class Stamp(NamedTuple):
    """What tells, without reading it, that a file is still the one that was hashed."""

    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """One line of the memory: the file `path` had this content when it had this stamp."""

    path: str
    stamp: Stamp
    sha256: str


def stamp_of(path: str | Path | ArchiveMember) -> Stamp:
    """Stamp of a regular file, links followed; of a member its archive's. MediaError for what cannot be read as one."""
    if isinstance(path, ArchiveMember):
        return stamp_of(path.archive)
    try:
        info = os.stat(path)  # noqa: PTH116  a Path costs more than the call
    except (OSError, ValueError) as error:
        raise MediaError(path, getattr(error, "strerror", None) or str(error)) from error
    if not stat.S_ISREG(info.st_mode):
        raise MediaError(path, "not a regular file")
    return Stamp(info.st_size, info.st_mtime_ns, info.st_ino)


def remembered_source(name: str) -> Path | ArchiveMember:
    """The file or member that a line of the memory names: `/data/a.zip::b/c.png` is a member unless it is a file."""
    if not Path(name).is_file():
        for archive, member in splits(name):
            if Path(archive).is_file():
                return ArchiveMember(Path(archive), member)
    return Path(name)


def hash_file(path: str | Path | ArchiveMember) -> str:
    """sha256 (hex) of a file's bytes. Raises MediaError when it cannot be read."""
    if isinstance(path, ArchiveMember):
        return hashlib.sha256(read_member(path)).hexdigest()
    try:
        with Path(path).open("rb", buffering=0) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise MediaError(path, error.strerror or str(error)) from error


def hash_pixels(pixels: np.ndarray, *, source_fps: float | None = None) -> Fingerprint:
    """Fingerprint of a medium made in memory: its shape, dtype, rate and bytes."""
    digest = hashlib.sha256(f"pixels {pixels.dtype.str} {pixels.shape} {source_fps}\n".encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return Fingerprint(digest.hexdigest(), pixels.nbytes)


def read_index(index: Path) -> Iterator[Remembered]:
    """The lines of a memory file, oldest first; a torn line is passed over, its file is merely hashed again."""
    if not index.exists():
        return
    with index.open("rb") as file:
        for line in file:
            try:
                path, size, mtime_ns, inode, sha256 = json.loads(line)
            except ValueError:
                continue
            yield Remembered(path, Stamp(size, mtime_ns, inode), sha256)


class ContentHashes:
    """Fingerprints of files, each read at most once while it does not change.

    index: the memory file; None keeps the memory within this object.
    rehash: read every file anew (once per object), whatever the memory says, and remember what was found.
    `files_hashed` and `bytes_hashed` count the reading done. Safe to use from several threads.
    """

    def __init__(self, index: Path | None = None, *, rehash: bool = False) -> None:
        self._index = index
        self._seen: dict[str, tuple[Stamp, str]] = {}
        self._remembered: dict[tuple[str, Stamp], str] | None = {} if rehash or index is None else None
        self._lock = threading.Lock()
        self.files_hashed = 0
        self.bytes_hashed = 0

    def of(self, path: str | Path | ArchiveMember) -> Fingerprint:
        """Fingerprint of a file's content. Raises MediaError: missing, unreadable, or changing while it is read."""
        name, stamp = str(path), stamp_of(path)
        seen = self._seen.get(name)
        if seen is None or seen[0] != stamp:
            seen = (stamp, self._recall(path, stamp) or self._hash(path, stamp))
        return Fingerprint(seen[1], find_member(path).size if isinstance(path, ArchiveMember) else stamp.size)

    def of_medium(self, ref: MediaRef) -> Fingerprint:
        """Fingerprint of what a medium is made of, the same by whatever route the bytes come. Raises MediaError.

        A picture loose, in an archive and in a row has one fingerprint, a PDF that of the whole file, a clip of frame
        files that of the list of theirs. Rates and page numbers are the recipe's.
        """
        source = ref.source
        if isinstance(source, np.ndarray):
            return hash_pixels(source, source_fps=ref.source_fps)
        if isinstance(source, FrameFiles):
            return _hash_list([self._of_file(file) for file in source.files])
        return self._of_file(source.file if isinstance(source, PdfPage) else source)

    def knows(self, ref: MediaRef) -> bool:
        """Whether `of_medium` reads no file for it. Raises MediaError for files that are not there."""
        source = ref.source
        if isinstance(source, np.ndarray):
            return True
        files = source.files if isinstance(source, FrameFiles) else (source,)
        return all(self._knows_file(file.file if isinstance(file, PdfPage) else file) for file in files)

    def _knows_file(self, source: FileSource) -> bool:
        if isinstance(source, RawBytes):
            return True
        path = source if isinstance(source, ArchiveMember) else on_disk(source)
        assert path is not None
        stamp, seen = stamp_of(path), self._seen.get(str(path))
        return (seen is not None and seen[0] == stamp) or self._recall(path, stamp) is not None

    def _of_file(self, source: FileSource) -> Fingerprint:
        if isinstance(source, RawBytes):
            return Fingerprint(hashlib.sha256(source.data).hexdigest(), len(source.data))
        if isinstance(source, ArchiveMember):
            return self.of(source)
        path = on_disk(source)
        assert path is not None
        return self.of(path)

    def _recall(self, path: str | Path | ArchiveMember, stamp: Stamp) -> str | None:
        with self._lock:
            remembered = self._loaded()
        name = str(path)
        sha256 = remembered.get((_real_name(path), stamp))
        if sha256 is not None:
            self._seen[name] = (stamp, sha256)
        return sha256

    def _loaded(self) -> dict[tuple[str, Stamp], str]:
        if self._remembered is None:
            assert self._index is not None
            self._remembered = {(line.path, line.stamp): line.sha256 for line in read_index(self._index)}
        return self._remembered

    def _hash(self, path: str | Path | ArchiveMember, stamp: Stamp) -> str:
        started_ns = time.time_ns()
        sha256 = hash_file(path)
        with self._lock:
            self.files_hashed += 1
            self.bytes_hashed += find_member(path).size if isinstance(path, ArchiveMember) else stamp.size
        if stamp_of(path) != stamp:
            raise MediaError(path, "changed while it was being read")
        if started_ns - stamp.mtime_ns > SETTLED_NS:
            self._remember(path, stamp, sha256)
        return sha256

    def _remember(self, path: str | Path | ArchiveMember, stamp: Stamp, sha256: str) -> None:
        real = _real_name(path)
        self._seen[str(path)] = (stamp, sha256)
        if self._remembered is not None:
            self._remembered[real, stamp] = sha256
        if self._index is not None:
            append_line(self._index, Remembered(real, stamp, sha256))


def _real_name(path: str | Path | ArchiveMember) -> str:
    if isinstance(path, ArchiveMember):
        return f"{os.path.realpath(path.archive)}::{path.member}"
    return os.path.realpath(path)


def _hash_list(files: Sequence[Fingerprint]) -> Fingerprint:
    """Fingerprint of files in an order."""
    text = "\n".join(["files", *(file.sha256 for file in files)])
    return Fingerprint(hashlib.sha256(text.encode()).hexdigest(), sum(file.size for file in files))


def append_line(index: Path, line: Remembered) -> None:
    """Add one line to a memory file. It starts with a newline too, so that a torn line before it spoils only itself."""
    text = f"\n{json.dumps([line.path, *line.stamp, line.sha256])}\n"
    index.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(index, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        os.write(file, text.encode("ascii"))
    finally:
        os.close(file)
