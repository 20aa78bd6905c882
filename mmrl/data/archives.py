"""Members of zip and tar archives, read by random access into memory. Nothing is unpacked to disk.

An archive's list of members is read once in a process, and again when the file changes. A compressed tar has no random
access and is refused.
"""

from __future__ import annotations

import functools
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mmrl.data.locations import ArchiveMember
from mmrl.data.source import media_errors
from mmrl.errors import MediaError, did_you_mean

MAX_MEMBER_BYTES = 2**30
"""Largest member that is read: a few kilobytes of zip can promise petabytes."""

_Stamp = tuple[int, int, int]
_ENCRYPTED = 0x1
_INDEXES = 1024  # archives whose list of members a process keeps
_OPEN_ZIPS = 64
_LOOKED_THROUGH = 10_000  # names compared for the nearest one
_REPACK = "repack it as .zip or as an uncompressed .tar"


@dataclass(frozen=True, slots=True)
class Member:
    """size: in bytes, unpacked. offset: of a tar member's bytes in the file; None in a zip."""

    size: int
    offset: int | None = None
    is_encrypted: bool = False


def members(archive: Path) -> Mapping[str, Member]:
    """Name -> what is known of each regular file in an archive. Raises MediaError for a file that is no archive."""
    return _members(archive, _stamp(archive))


def find_member(place: ArchiveMember) -> Member:
    """The named member. Raises MediaError: no such member, encrypted, or larger than MAX_MEMBER_BYTES."""
    index = members(place.archive)
    if place.member not in index:
        raise MediaError(place, f"no such member; {absence(place.archive, place.member)}")
    found = index[place.member]
    if found.is_encrypted:
        raise MediaError(place, f"encrypted; {_REPACK} without a password")
    if found.size > MAX_MEMBER_BYTES:
        raise MediaError(place, f"{found.size} bytes unpacked, above the limit of {MAX_MEMBER_BYTES}; unpack it")
    return found


def splits(name: str) -> Iterator[tuple[str, str]]:
    """(archive, member) for each way to read a name as both, the shortest archive first.

    >>> list(splits("a.zip::b::c.png"))
    [('a.zip', 'b::c.png'), ('a.zip::b', 'c.png')]
    """
    for match in re.finditer("(?=::)", name):  # looking ahead finds both places in `:::`
        archive, member = name[: match.start()], name[match.start() + 2 :]
        if archive and member:
            yield archive, member


def absence(archive: Path, member: str) -> str:
    """How messages say that an archive has no member of this name, with the nearest name there is."""
    index = members(archive)
    near = did_you_mean(member, index) if len(index) <= _LOOKED_THROUGH else ""
    return f"{archive} holds {len(index)} files, none called {member!r}{near}"


def read_member(place: ArchiveMember) -> bytes:
    """The bytes of a member. Raises MediaError; a zip's own checksum is compared, a tar has none."""
    found = find_member(place)
    with media_errors(place, hint=" (the archive is damaged)"):
        data = _read_zip(place, found) if found.offset is None else _read_tar(place, found)
    if len(data) != found.size:
        raise MediaError(place, f"{found.size} bytes promised, {len(data)} found: the archive is damaged")
    return data


def _stamp(archive: Path) -> _Stamp:
    try:
        info = archive.stat()
    except OSError as error:
        raise MediaError(archive, error.strerror or str(error)) from error
    return info.st_size, info.st_mtime_ns, info.st_ino


@functools.lru_cache(maxsize=_INDEXES)
def _members(archive: Path, stamp: _Stamp) -> Mapping[str, Member]:
    with media_errors(archive):
        return _read_index(archive, stamp)


def _read_index(archive: Path, stamp: _Stamp) -> Mapping[str, Member]:
    with archive.open("rb") as file:
        head = file.read(4)
    if head[:2] == b"PK":
        return _index_zip(archive, stamp)
    if head[:2] == b"\x1f\x8b" or head[:3] == b"BZh" or head == b"\xfd7zX" or head == b"\x28\xb5\x2f\xfd":
        raise MediaError(archive, f"compressed as a whole, so its members cannot be read one by one; {_REPACK}")
    return _index_tar(archive)


def _index_zip(archive: Path, stamp: _Stamp) -> Mapping[str, Member]:
    try:
        opened = _open_zip(archive, stamp)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise MediaError(archive, f"not a readable zip archive: {error}") from error
    files = [info for info in opened.infolist() if not info.is_dir()]
    return {f.filename: Member(f.file_size, is_encrypted=bool(f.flag_bits & _ENCRYPTED)) for f in files}


def _index_tar(archive: Path) -> Mapping[str, Member]:
    """A member of a name that stands there twice is the last one, as when it is unpacked."""
    try:
        with tarfile.open(archive, "r:") as opened:
            return {
                info.name.removeprefix("./"): Member(info.size, info.offset_data)
                for info in opened
                if info.isreg() and not info.issparse()
            }
    except tarfile.TarError as error:
        raise MediaError(archive, f"not a readable archive (zip, or tar without compression): {error}") from error


def _read_zip(place: ArchiveMember, found: Member) -> bytes:
    # The open archive is kept: reading its directory again for each member takes a second where there are many.
    with _open_zip(place.archive, _stamp(place.archive)).open(place.member) as file:
        return file.read(found.size)


@functools.lru_cache(maxsize=_OPEN_ZIPS)
def _open_zip(archive: Path, stamp: _Stamp) -> zipfile.ZipFile:
    return zipfile.ZipFile(archive)


def _read_tar(place: ArchiveMember, found: Member) -> bytes:
    with place.archive.open("rb") as file:
        file.seek(found.offset or 0)
        return file.read(found.size)
