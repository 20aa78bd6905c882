"""The bytes of a file, wherever it lies: on disk, in an archive, in the row, fetched from the web."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mmrl.data.archives import find_member, read_member
from mmrl.data.locations import ArchiveMember, FileSource, FrameFiles, PdfPage, RawBytes, Url
from mmrl.data.sample import MediaRef
from mmrl.data.source import check_file, media_errors
from mmrl.errors import MediaError


def on_disk(source: FileSource) -> Path | None:
    """The file itself where there is one: a path, or the copy of a URL. Raises MediaError for a URL not fetched."""
    if isinstance(source, Url):
        if source.file is None:
            raise MediaError(source, "not fetched yet; media on the web are opened through a cache")
        return source.file
    return source if isinstance(source, Path) else None


def read_bytes(source: FileSource) -> bytes:
    """All bytes of a file. Raises MediaError naming it; an empty file is one."""
    if isinstance(source, RawBytes):
        data = source.data
    elif isinstance(source, ArchiveMember):
        data = read_member(source)
    else:
        path = on_disk(source)
        assert path is not None
        check_file(path)
        with media_errors(source):
            return path.read_bytes()
    if not data:
        raise MediaError(source, "the file is empty")
    return data


def source_size(ref: MediaRef) -> int:
    """Bytes that have to be read for a medium; 0 where that is not known: a file not there, or not fetched yet.

    Frame files count as many times the first one.
    """
    source = ref.source
    if isinstance(source, np.ndarray):
        return source.nbytes
    if isinstance(source, FrameFiles):
        return _file_size(source.files[0]) * len(source.files)
    return _file_size(source.file if isinstance(source, PdfPage) else source)


def _file_size(source: FileSource) -> int:
    try:
        if isinstance(source, RawBytes):
            return len(source.data)
        if isinstance(source, ArchiveMember):
            return find_member(source).size
        path = on_disk(source)
        return path.stat().st_size if path is not None else 0
    except (OSError, ValueError):  # of which MediaError is one
        return 0


@contextmanager
def as_path(source: FileSource) -> Iterator[Path]:
    """A path under which libraries find the bytes: the file's own, or that of a file that exists in memory only.

    Errors that name the path raised inside are raised naming the source instead.
    """
    if isinstance(source, Path):
        yield source
        return
    path = on_disk(source)
    if path is not None:
        with _named(source, path):
            yield path
        return
    handle = os.memfd_create("medium", os.MFD_CLOEXEC)
    try:
        _write_all(handle, read_bytes(source))
        path = Path(f"/proc/self/fd/{handle}")
        with _named(source, path):
            yield path
    finally:
        os.close(handle)


@contextmanager
def _named(source: FileSource, path: Path) -> Iterator[None]:
    try:
        yield
    except MediaError as error:
        name = str(source) if error.path == str(path) else error.path
        raise MediaError(name, error.reason.replace(str(path), str(source))) from error


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
