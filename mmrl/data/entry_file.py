"""The file of one cached medium: safetensors, its frames and their times, and a checksum over every byte.

    8 bytes   length of the header
    header    {"__metadata__": {"checksum", "recipe", "source", "medium"}, "seconds": {...}, "indices", "frames"}
    data      seconds float64 (F,) and indices int32 (F,): of each frame of a clip; (0,) for a picture
              frames uint8 (F, 3, H, W), each source frame once

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
from collections.abc import Iterable, Iterator
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
_SECONDS, _INDICES = np.dtype("<f8"), np.dtype("<i4")
# No real header comes near this; a larger number is a damaged length field and must not become an allocation.
_LARGEST_HEADER = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class StoredEntry:
    """What one entry file holds.

    recipe: canonical JSON of the recipe. source: `{"sha256", "size"}`. medium: sizes, grid, rates.
    timestamps_s, frame_indices: of each frame of a clip; empty for a picture.
    """

    recipe: str
    source: dict[str, Any]
    medium: dict[str, Any]
    frames_F3HW: torch.Tensor
    timestamps_s: tuple[float, ...] = ()
    frame_indices: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.frames_F3HW.shape)


def write_entry(path: Path, entry: StoredEntry) -> int:
    """Write an entry whole or not at all: temporary name, sync, rename. Returns the file's bytes. Raises CacheError.

    The directory is not synced: losing the new name to a power cut costs a rebuild, never a half entry.
    """
    frames_F3HW = entry.frames_F3HW
    assert frames_F3HW.dtype == torch.uint8 and frames_F3HW.ndim == 4 and frames_F3HW.shape[1] == 3
    seconds_F, indices_F = np.array(entry.timestamps_s, _SECONDS), np.array(entry.frame_indices, _INDICES)
    data = (seconds_F.tobytes(), indices_F.tobytes(), frames_F3HW.contiguous().reshape(-1).numpy().data)
    head = bytearray(_header(entry))
    head[_CHECKSUM] = _digest(head, data)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb", buffering=0) as file:
            for block in (head, *data):
                _write_all(file, memoryview(block))
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise CacheError(f"{path}: cannot write the cache entry: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # there is nothing to remove after the rename
            temporary.unlink()
    return len(head) + sum(len(block) for block in data)


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
        if head[_CHECKSUM] != _digest(head, [raw_N[start:].data]):
            raise CacheCorruptError(f"{path}: the bytes do not match the checksum")
    layout = _parse(path, raw_N[_PREFIX:start].tobytes(), size - start)
    return layout.entry(
        raw_N[start : start + layout.timeline_bytes].tobytes(), bytes_N[start + layout.timeline_bytes :]
    )


def read_header(path: Path) -> StoredEntry:
    """Everything of an entry except its pixels (`frames_F3HW` has no memory), reading only the head of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = _data_start(path, file.read(_PREFIX), size)
        layout = _parse(path, file.read(start - _PREFIX), size - start)
        pixels_N = torch.empty(size - start - layout.timeline_bytes, dtype=torch.uint8, device="meta")
        return layout.entry(file.read(layout.timeline_bytes), pixels_N)


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


def _header(entry: StoredEntry) -> bytes:
    metadata = {"checksum": _ZEROS.decode(), "recipe": entry.recipe}
    metadata |= {"source": _compact(entry.source), "medium": _compact(entry.medium)}
    count, end = len(entry.timestamps_s), 0
    assert count == len(entry.frame_indices)
    tensors: dict[str, Any] = {}
    for name, dtype, shape, size in (
        ("seconds", "F64", (count,), _SECONDS.itemsize),
        ("indices", "I32", (count,), _INDICES.itemsize),
        ("frames", "U8", entry.shape, 1),
    ):
        start, end = end, end + math.prod(shape) * size
        tensors[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = _compact({"__metadata__": metadata, **tensors}).encode("ascii")
    text += b" " * (-len(text) % 8)
    assert text.startswith(_START + _ZEROS)
    return len(text).to_bytes(_PREFIX, "little") + text


def _digest(head: bytes | bytearray, data: Iterable[bytes | memoryview]) -> bytes:
    digest = xxhash.xxh3_128(bytes(head[: _CHECKSUM.start]))
    digest.update(_ZEROS)
    digest.update(bytes(head[_CHECKSUM.stop :]))
    for block in data:
        digest.update(block)
    return digest.hexdigest().encode("ascii")


def _write_all(file: Any, block: memoryview) -> None:
    while len(block):
        block = block[file.write(block) :]


def _data_start(path: Path, prefix: bytes, size: int) -> int:
    start = _PREFIX + int.from_bytes(prefix, "little")
    if len(prefix) < _PREFIX or not _CHECKSUM.stop < start <= min(size, _LARGEST_HEADER):
        raise CacheCorruptError(f"{path}: no header, or cut short within it ({size} bytes)")
    return start


@dataclass(frozen=True, slots=True)
class _Layout:
    """A parsed header: everything but the data, whose size it has been compared with. count: times that are stored."""

    metadata: dict[str, Any]
    shape: tuple[int, ...]
    count: int

    @property
    def timeline_bytes(self) -> int:
        """Size of seconds and indices, which lie before the frames."""
        return self.count * (_SECONDS.itemsize + _INDICES.itemsize)

    def entry(self, timeline: bytes, pixels_N: torch.Tensor) -> StoredEntry:
        split = self.count * _SECONDS.itemsize
        return StoredEntry(
            **self.metadata,
            frames_F3HW=pixels_N.view(self.shape),
            timestamps_s=tuple(np.frombuffer(timeline[:split], _SECONDS).tolist()),
            frame_indices=tuple(np.frombuffer(timeline[split:], _INDICES).tolist()),
        )


def _parse(path: Path, head: bytes, data_bytes: int) -> _Layout:
    try:
        header = json.loads(head)
        metadata, frames = header["__metadata__"], header["frames"]
        shape = tuple(int(length) for length in frames["shape"])
        count = int(header["seconds"]["shape"][0])
        metadata = {
            "recipe": metadata["recipe"],
            "source": json.loads(metadata["source"]),
            "medium": json.loads(metadata["medium"]),
        }
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CacheCorruptError(f"{path}: the header is damaged ({type(error).__name__}: {error})") from error
    if len(shape) != 4 or shape[1] != 3 or frames["dtype"] != "U8":
        raise CacheCorruptError(f"{path}: the header is damaged (frames {frames['dtype']} {list(shape)})")
    layout = _Layout(metadata, shape, count)
    expected = layout.timeline_bytes + math.prod(shape)
    if data_bytes != expected or min(*shape, count) < 0:
        raise CacheCorruptError(f"{path}: {expected} bytes of data expected, {data_bytes} found")
    return layout


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
