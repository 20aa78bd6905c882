"""Media on the web, fetched once into the cache: `<cache>/downloads/<sha256 of the URL>`."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import URLError
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    UnknownHandler,
)

from mmrl.data.locations import FileSource, FrameFiles, MediaSource, PdfPage, Url
from mmrl.data.sample import MediaRef
from mmrl.errors import MediaError

FOLDER = "downloads"
MAX_BYTES = 2**30
"""Largest file that is fetched."""

LIMIT_S = 300.0
"""Longest time one file may take."""

_SILENCE_S = 30.0  # a server that sends nothing for so long is given up
_BLOCK = 1 << 20
_HANDLERS = (
    ProxyHandler,
    UnknownHandler,
    HTTPHandler,
    HTTPSHandler,
    HTTPDefaultErrorHandler,
    HTTPRedirectHandler,
    HTTPErrorProcessor,
)


def fetched(ref: MediaRef, folder: Path, *, may_fetch: bool) -> MediaRef:
    """The medium with every URL's file on this machine, below `folder`. Raises MediaError naming the URL.

    may_fetch: false takes only what was fetched before.
    """
    if not _has_url(ref.source):
        return ref
    return replace(ref, source=_local(ref.source, folder, may_fetch))


def download(url: str, target: Path, *, max_bytes: int = MAX_BYTES, limit_s: float = LIMIT_S) -> None:
    """Fetch a file over http or https, whole or not at all. Raises MediaError with the URL and the reason."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _opener().open(url, timeout=min(_SILENCE_S, limit_s)) as answer, temporary.open("xb") as file:
            _copy(answer, file, url, max_bytes=max_bytes, limit_s=limit_s)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except MediaError:
        raise
    except URLError as error:
        raise MediaError(url, f"cannot be fetched: {error.reason or error}{_status(error)}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise MediaError(url, f"cannot be fetched: {error or type(error).__name__}") from error
    finally:
        with contextlib.suppress(OSError):  # there is nothing to remove after the rename
            temporary.unlink()


def _has_url(source: MediaSource) -> bool:
    if isinstance(source, FrameFiles):
        return any(isinstance(file, Url) for file in source.files)
    return isinstance(source.file if isinstance(source, PdfPage) else source, Url)


def _local(source: MediaSource, folder: Path, may_fetch: bool) -> MediaSource:
    if isinstance(source, FrameFiles):
        return replace(source, files=tuple(_local_file(file, folder, may_fetch) for file in source.files))
    if isinstance(source, PdfPage):
        return replace(source, file=_local_file(source.file, folder, may_fetch))
    return _local_file(source, folder, may_fetch) if isinstance(source, Url) else source


def _local_file(file: FileSource, folder: Path, may_fetch: bool) -> FileSource:
    if not isinstance(file, Url) or file.file is not None:
        return file
    target = folder / hashlib.sha256(file.url.encode()).hexdigest()
    if not target.is_file():
        if not may_fetch:
            reason = f"not fetched into {folder}, and cache.on_miss is error; run `mmrl preprocess`"
            raise MediaError(file, reason)
        download(file.url, target)
    return replace(file, file=target)


def _copy(answer: Any, file: IO[bytes], url: str, *, max_bytes: int, limit_s: float) -> None:
    promised = answer.headers.get("Content-Length")
    size = 0
    for block in _blocks(answer, url, limit_s=limit_s):
        size += len(block)
        if size > max_bytes:
            raise MediaError(url, f"larger than the limit of {max_bytes} bytes; download it and name the file")
        file.write(block)
    if promised is not None and size != int(promised):
        raise MediaError(url, f"cut short: {size} of {promised} bytes came")


def _blocks(answer: Any, url: str, *, limit_s: float) -> Iterator[bytes]:
    deadline = time.monotonic() + limit_s
    while block := answer.read1(_BLOCK):
        if time.monotonic() > deadline:
            raise MediaError(url, f"took longer than {limit_s:g} s to fetch; download it and name the file")
        yield block


def _opener() -> OpenerDirector:
    """Fetches over http and https only, redirections included: `file:` and `ftp:` have no handler here."""
    opener = OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    return opener


def _status(error: URLError) -> str:
    return f" (status {error.code})" if hasattr(error, "code") else ""  # pyright: ignore[reportAttributeAccessIssue]
