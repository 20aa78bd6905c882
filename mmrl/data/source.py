"""What every opener of media checks first, and the one place where their many exceptions become MediaError."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mmrl.data.sample import MediaRef
from mmrl.errors import MediaError, MmrlError

_HEAD_BYTES = 24


def source_name(ref: MediaRef) -> str:
    """How messages name a medium: its path or other place, or what it is when its pixels live in memory."""
    if isinstance(ref.source, np.ndarray):
        return f"{ref.kind} in memory, shape {ref.source.shape}, {ref.source.dtype}"
    return str(ref.source)


def first_bytes_of(data: bytes) -> str:
    """The first bytes of a file as an error message shows them: they tell an HTML page from a picture."""
    return repr(data[:_HEAD_BYTES])


def check_file(path: Path) -> None:
    """Raise MediaError unless the path names something with bytes in it."""
    try:
        status = path.stat()
    except OSError as error:
        raise MediaError(path, error.strerror or str(error)) from error
    if stat.S_ISDIR(status.st_mode):
        raise MediaError(path, "a folder, not a file")
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        raise MediaError(path, "the file is empty")


def first_bytes(path: Path) -> str:
    """The same of a file by its path."""
    with path.open("rb") as file:
        return first_bytes_of(file.read(_HEAD_BYTES))


@contextmanager
def media_errors(name: object, *, hint: str = "") -> Iterator[None]:
    """Turn whatever a decoding library raises into MediaError naming the medium.

    Libraries raise OSError, SyntaxError, struct.error, RuntimeError, classes of their own and more for bad input, so
    this is one of the places where every Exception is caught. A MediaError passes unchanged.
    """
    try:
        yield
    except (MediaError, AssertionError):  # an assertion is a fault of this program, not of the medium
        raise
    except Exception as error:
        speaks_plainly = isinstance(error, MmrlError | OSError) and str(error)
        reason = str(error) if speaks_plainly else f"{type(error).__name__}: {error}".removesuffix(": ")
        raise MediaError(name, reason + hint) from error
