"""The file of one cached medium: safetensors, one uint8 tensor, and metadata that a checksum covers to the last byte.

    8 bytes   length of the header
    header    {"__metadata__": {"checksum", "recipe", "source", "medium"}, "frames": {"dtype": "U8", "shape", ...}}
    data      frames (F, 3, H, W), each source frame once

`checksum` is xxh3-128 over the whole file with the checksum's own 32 digits read as zeros: a flipped byte anywhere, in
a timestamp as in a pixel, is found. `safetensors.safe_open` reads these files; they are mapped here by hand because one
mapping then serves the header, the checksum and the frames, and holds no file descriptor.

Shape letters: F frames, H/W pixels, N bytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash

from mmrl.errors import CacheCorruptError, CacheError

SUFFIX = ".safetensors"
_START = b'{"__metadata__":{"checksum":"'
_CHECKSUM = slice(8 + len(_START), 8 + len(_START) + 32)
_ZEROS = b"0" * 32
_PREFIX = 8
# No real header comes near this; a larger number is a damaged length field and must not become an allocation.
_LARGEST_HEADER = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class StoredEntry:
    """What one entry file holds.

    recipe: canonical JSON of the recipe. source: `{"sha256", "size"}`. medium: sizes, grid, times, indices.
    """

    recipe: str
    source: dict[str, Any]
    medium: dict[str, Any]
    shape: tuple[int, int, int, int]
    frames_F3HW: torch.Tensor


def write_entry(path: Path, frames_F3HW: torch.Tensor, *, recipe: str, source: dict, medium: dict) -> int:
    """Write an entry whole or not at all: temporary name, sync, rename. Returns the file's bytes. Raises CacheError.

    The directory is not synced: losing the new name to a power cut costs a rebuild, never a half entry.
    """
    assert frames_F3HW.dtype == torch.uint8 and frames_F3HW.ndim == 4 and frames_F3HW.shape[1] == 3
    data_N = frames_F3HW.contiguous().reshape(-1).numpy()
    head = bytearray(_header(tuple(frames_F3HW.shape), recipe=recipe, source=source, medium=medium))
    head[_CHECKSUM] = _digest(head, data_N)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb", buffering=0) as file:
            for block in (memoryview(head), data_N.data):
                _write_all(file, block)
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise CacheError(f"{path}: cannot write the cache entry: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # there is nothing to remove after the rename
            temporary.unlink()
    return len(head) + data_N.nbytes


def read_entry(path: Path, *, verify: bool) -> StoredEntry:
    """Map an entry. A cut file is always found, a flipped byte when `verify`; both raise CacheCorruptError.

    The frames are a private mapping: nothing is copied, and nothing a process does to them reaches the file.
    Raises FileNotFoundError when there is no entry.
    """
    size = path.stat().st_size
    if size < _PREFIX:
        raise CacheCorruptError(f"{path}: cut short, {size} bytes")
    bytes_N = _map(path, size)
    raw_N = bytes_N.numpy()
    start = _data_start(path, raw_N[:_PREFIX].tobytes(), size)
    if verify:
        head = raw_N[:start].tobytes()
        if head[_CHECKSUM] != _digest(head, raw_N[start:]):
            raise CacheCorruptError(f"{path}: the bytes do not match the checksum")
    return _parse(path, raw_N[_PREFIX:start].tobytes(), bytes_N[start:])


def read_header(path: Path) -> StoredEntry:
    """Everything of an entry except its pixels (`frames_F3HW` is empty), reading only the head of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = _data_start(path, file.read(_PREFIX), size)
        head = file.read(start - _PREFIX)
    return _parse(path, head, torch.empty(size - start, dtype=torch.uint8, device="meta"))


def temporary_files(folder: Path) -> Iterator[Path]:
    """Files that writers are writing, or died writing."""
    return folder.glob("*/.*.tmp")


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _map(path: Path, size: int) -> torch.Tensor:
    try:
        return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    except RuntimeError as error:
        if not path.exists():  # pruned by another process since its size was asked
            raise FileNotFoundError(str(path)) from error
        raise CacheCorruptError(f"{path}: cannot be mapped ({str(error).splitlines()[0]})") from error


def _header(shape: tuple[int, ...], *, recipe: str, source: dict, medium: dict) -> bytes:
    metadata = {"checksum": _ZEROS.decode(), "recipe": recipe, "source": _compact(source), "medium": _compact(medium)}
    frames = {"dtype": "U8", "shape": shape, "data_offsets": [0, math.prod(shape)]}
    text = _compact({"__metadata__": metadata, "frames": frames}).encode("ascii")
    text += b" " * (-len(text) % 8)
    assert text.startswith(_START + _ZEROS)
    return len(text).to_bytes(_PREFIX, "little") + text


def _digest(head: bytes | bytearray, data_N: np.ndarray) -> bytes:
    digest = xxhash.xxh3_128(bytes(head[: _CHECKSUM.start]))
    digest.update(_ZEROS)
    digest.update(bytes(head[_CHECKSUM.stop :]))
    digest.update(data_N.data)
    return digest.hexdigest().encode("ascii")


def _write_all(file: Any, block: memoryview) -> None:
    while len(block):
        block = block[file.write(block) :]


def _data_start(path: Path, prefix: bytes, size: int) -> int:
    start = _PREFIX + int.from_bytes(prefix, "little")
    if len(prefix) < _PREFIX or not _CHECKSUM.stop < start <= min(size, _LARGEST_HEADER):
        raise CacheCorruptError(f"{path}: no header, or cut short within it ({size} bytes)")
    return start


def _parse(path: Path, head: bytes, data_N: torch.Tensor) -> StoredEntry:
    try:
        header = json.loads(head)
        metadata, frames = header["__metadata__"], header["frames"]
        shape = tuple(int(length) for length in frames["shape"])
        source, medium = json.loads(metadata["source"]), json.loads(metadata["medium"])
        recipe = metadata["recipe"]
    except (ValueError, KeyError, TypeError) as error:
        raise CacheCorruptError(f"{path}: the header is damaged ({type(error).__name__}: {error})") from error
    if len(shape) != 4 or shape[1] != 3 or frames["dtype"] != "U8":
        raise CacheCorruptError(f"{path}: the header is damaged (frames {frames['dtype']} {list(shape)})")
    expected = math.prod(shape)
    if data_N.shape[0] != expected:
        raise CacheCorruptError(f"{path}: {expected} bytes of pixels expected, {data_N.shape[0]} found")
    return StoredEntry(recipe, source, medium, shape, data_N.view(shape))


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
