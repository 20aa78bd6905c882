"""From what a dataset writes to where the bytes are: paths, URLs, data URIs, base64, members, PDF pages, folders.

An existing file of the literal name always wins, so a picture that is called `a::b.png` or `x.pdf#page=2` is that
picture. Nothing is opened here but lists: a folder's, an archive's.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes

from mmrl.data.archives import Member, absence, members, splits
from mmrl.data.locations import ArchiveMember, FileSource, FrameFiles, MediaSource, PdfPage, RawBytes, Url
from mmrl.data.sample import MediaKind
from mmrl.errors import DataError, MediaError, MissingMediaError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[^;,]*)*)(;base64)?,", re.ASCII)
_PAGE = re.compile(r"(.+)#page=([0-9]{1,9})", re.ASCII | re.DOTALL)
_FRAME = re.compile(r"(.*?)([0-9]+)(\D*)", re.ASCII | re.DOTALL)
_LEAST_BASE64 = 64  # characters; the smallest PNG has more
_LONGEST_PATH = 4096
_SHOWN = 60
_MAGIC = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"II*\x00", b"MM\x00*", b"\x1a\x45\xdf\xa3", b"%PDF-")


@dataclass(frozen=True)
class MediaRules:
    """What a dataset says of all its media.

    source_fps: rate of clips given as frames that do not say theirs. pdf_dpi: at which PDF pages are drawn.
    """

    source_fps: float | None = None
    pdf_dpi: int = 144
    allow_urls: bool = False


@dataclass(frozen=True)
class Locator:
    """Finds the media of one kind. root: absolute folder that relative paths start from."""

    kind: MediaKind
    root: Path
    rules: MediaRules

    def locate(self, written: str, name: str) -> MediaSource:
        """The place that a string names; `name` is how errors call its cell.

        DataError for a string that is none of the forms, MissingMediaError for one that leads nowhere. The forms stand
        in docs/media.md.
        """
        url = _URL.match(written)
        if url and url[1].lower() == "file":
            return self._file_url(written)
        if url:
            return self._url(written, name)
        found = self._file(written) or self._inline(written, name) or self._page(written) or self._folder(written)
        if found is None:
            raise self._missing(written)
        return found

    def page(self, source: MediaSource, page: int, dpi: int) -> PdfPage:
        """A page of a PDF that was located. Raises DataError for numbers and places that make no page."""
        if self.kind != "image":
            raise DataError(f"{source}#page={page}: a PDF page is a picture, not a clip; list it among the images")
        if not isinstance(source, FileSource):
            raise DataError(f"{source} has no pages: it is no PDF file")
        if page < 1:
            raise DataError(f"{source}#page={page}: pages are counted from 1")
        return PdfPage(source, page, dpi)

    def _file(self, written: str) -> Path | ArchiveMember | None:
        if is_file(self.root, written):
            return self.root / written
        for archive, member in _archive_splits(written, self.root):
            for name in (member, member.removeprefix("./")):  # a tar may list it either way
                if name in _members_or_none(archive):
                    return ArchiveMember(archive, name)
        return None

    def _page(self, written: str) -> PdfPage | None:
        match = _PAGE.fullmatch(written)
        if match is None:
            return None
        found = self._file(match[1])
        if found is None:
            raise self._missing(match[1])
        return self.page(found, int(match[2]), self.rules.pdf_dpi)

    def _folder(self, written: str) -> FrameFiles | None:
        is_frames = (
            self.kind == "video" and written and _can_exist(written) and _looked_up(self.root / written, Path.is_dir)
        )
        return frame_folder(self.root / written) if is_frames else None

    def _file_url(self, written: str) -> MediaSource:
        """Percent signs mean themselves where a file of that very name exists, else what URLs make of them."""
        path = re.sub(r"^file://(localhost(?=/))?", "", written, flags=re.IGNORECASE)
        for spelling in (path, unquote(path)):
            found = self._file(spelling) or self._page_or_none(spelling) or self._folder(spelling)
            if found is not None:
                return found
        raise self._missing(unquote(path))

    def _page_or_none(self, written: str) -> PdfPage | None:
        try:
            return self._page(written)
        except MissingMediaError:
            return None

    def _url(self, written: str, name: str) -> MediaSource:
        scheme = written.partition("://")[0].lower()
        if scheme not in ("http", "https"):
            raise DataError(f"{name} is a URL ({written}) and only http(s) is fetched; download it and name the file")
        if not self.rules.allow_urls:
            raise DataError(
                f"{name} is a URL ({written}); download it and name the file, or set data.allow_urls: true to fetch it "
                "into the cache"
            )
        match = _PAGE.fullmatch(written)
        return self.page(Url(match[1]), int(match[2]), self.rules.pdf_dpi) if match else Url(written)

    def _inline(self, written: str, name: str) -> RawBytes | None:
        """The bytes of a data URI, or of base64 that begins as a picture, clip or PDF begins."""
        match = _DATA_URI.match(written)
        if match:
            return RawBytes(self._data_uri(written, match, name), f"data URI in {name}")
        return RawBytes(decode_base64(written, name), f"base64 in {name}") if _is_base64(written) else None

    def _data_uri(self, written: str, match: re.Match[str], name: str) -> bytes:
        mime = match[1] or ""
        fitting = (f"{self.kind}/", "application/octet-stream", *(["application/pdf"] if self.kind == "image" else []))
        if mime and not mime.startswith(fitting):
            raise DataError(f"{name} is a data URI of type {mime}, not {self.kind}/...")
        payload = written[match.end() :]
        return decode_base64(payload, name) if match[3] else unquote_to_bytes(payload)

    def _missing(self, written: str) -> MissingMediaError:
        shown = written if len(written) <= 4 * _SHOWN else f"{written[:_SHOWN]}... ({len(written)} characters)"
        path = self.root / shown
        return MissingMediaError(f"no such file: {path}{self._hint(written)}", path=str(path))

    def _hint(self, written: str) -> str:
        """What probably went wrong with a path that leads nowhere."""
        for archive, member in _archive_splits(written, self.root):
            return _member_hint(archive, member)
        if "\\" in written:
            return "; it is written with backslashes, write it with /"
        if _can_exist(written) and _looked_up(self.root / written, Path.is_dir):
            return "; it is a folder, and only a clip may be a folder of frames"
        first = written.split("/", maxsplit=1)[0]
        if self.root.name == first and is_file(self.root.parent, written):
            return f"; {self.root.parent / written} exists: `root` already ends in {first!r}, set it one folder higher"
        if not written.startswith("/") and is_file(Path(), written):
            return f"; it exists below the current folder, but paths start from {self.root}; set the dataset's `root`"
        return ""


def is_file(root: Path, name: str) -> bool:
    """Whether a file of this name exists below a folder; a name that no file can have is none."""
    return _can_exist(name) and _looked_up(root / name, Path.is_file)


def _looked_up(path: Path, question: Callable[[Path], bool]) -> bool:
    try:
        return question(path)
    except OSError as error:  # a folder above it may not be read, or the whole path is too long
        raise MissingMediaError(f"{path}: {error.strerror}", path=str(path)) from error


def _can_exist(name: str) -> bool:
    """Whether a file system can hold this name: a megabyte of base64 is never looked for."""
    return (
        len(name) < _LONGEST_PATH
        and "\0" not in name
        and all(len(n.encode(errors="surrogatepass")) < 256 for n in name.split("/"))
    )


def decode_base64(text: str, name: str) -> bytes:
    """The bytes behind standard base64, line breaks allowed. Raises DataError."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{name}: not valid base64: {error}") from error
    if not data:
        raise DataError(f"{name}: holds no bytes")
    return data


def frame_folder(folder: Path) -> FrameFiles:
    """The numbered pictures in a folder, in the order of their numbers; hidden files are passed over.

    `f_1.jpg, f_2.jpg, ..., f_10.jpg` are in that order. DataError: a file without a number or of another pattern, a
    gap, a number that stands there twice, no file.
    """
    numbered: dict[int, Path] = {}
    pattern: tuple[str, str] | None = None
    for path in _entries(folder):
        if path.name.startswith("."):
            continue
        match = _FRAME.fullmatch(path.stem)
        if match is None or not path.is_file():
            raise DataError(f"{folder}: {path.name} is no numbered frame; a clip's folder holds its frames only")
        pattern = pattern or (match[1], match[3] + path.suffix)
        if (match[1], match[3] + path.suffix) != pattern:
            raise DataError(f"{folder}: {path.name} is not named like the others ({pattern[0]}<number>{pattern[1]})")
        if int(match[2]) in numbered:
            raise DataError(f"{folder}: {numbered[int(match[2])].name} and {path.name} have the same number")
        numbered[int(match[2])] = path
    if not numbered:
        raise DataError(f"{folder}: the folder holds no frames")
    _check_gaps(folder, sorted(numbered))
    return FrameFiles(tuple(numbered[number] for number in sorted(numbered)), str(folder))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise MissingMediaError(f"{folder}: {error.strerror}", path=str(folder)) from error


def _check_gaps(folder: Path, numbers: list[int]) -> None:
    for before, after in itertools.pairwise(numbers):
        if after != before + 1:
            raise DataError(f"{folder}: frame {before + 1} is missing, {before} is followed by {after}")


def _is_base64(written: str) -> bool:
    """Long, and what its first characters stand for begins as a picture, clip or PDF begins: no path does that."""
    if len(written) < _LEAST_BASE64:
        return False
    try:
        head = base64.b64decode(written[:24], validate=True)
    except (binascii.Error, ValueError):
        return False
    return head.startswith(_MAGIC) or head[4:8] == b"ftyp"


def _archive_splits(written: str, root: Path) -> Iterator[tuple[Path, str]]:
    """(archive, member) at each `::` that has an existing file on its left."""
    for archive, member in splits(written):
        if is_file(root, archive):
            yield root / archive, member


def _members_or_none(archive: Path) -> Mapping[str, Member]:
    try:
        return members(archive)
    except MediaError:  # no archive; the message about what is missing says so
        return {}


def _member_hint(archive: Path, member: str) -> str:
    try:
        return f"; {absence(archive, member)}"
    except MediaError as error:
        return f"; {archive}: {error.reason}"
