"""The bytes of one cached thing: safetensors whose metadata hold a checksum over every byte.

    8 bytes   length of the header
    header    {"__metadata__": {"checksum", ...text}, NAME: {"dtype", "shape", "data_offsets"}, ...}, blanks to 8 bytes
    data      the tensors, one behind the other

`checksum` is xxh3-128 over all of it with the checksum's own 32 digits read as zeros: a flipped byte anywhere is found.
`safetensors.safe_open` reads such files; they are parsed here by hand because the bytes may lie within a shard, and one
look then serves the header, the checksum and the tensors.

Shape letters: N bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import xxhash

from mmrl.errors import CacheCorruptError

_START = b'{"__metadata__":{"checksum":"'
_CHECKSUM = slice(8 + len(_START), 8 + len(_START) + 32)
_ZEROS = b"0" * 32
_PREFIX = 8
# No real header comes near this; a larger number is a damaged length field and must not become an allocation.
_LARGEST_HEADER = 64 * 1024 * 1024
_NAMES = {
    torch.uint8: "U8",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}
_JSON = json.JSONDecoder()
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


class _Place(NamedTuple):
    """Where a tensor lies in the data, and what it is."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class Container:
    """What a container holds; its tensors are views of the bytes it was read from.

    metadata: all but the checksum, as text.
    """

    metadata: dict[str, str]
    _places: dict[str, _Place]
    _data_N: np.ndarray

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> torch.Tensor:
        """A tensor by name, over the same memory. Raises KeyError."""
        place = self._places[name]
        data_N = self._data_N[place.begin : place.end]
        if place.dtype == torch.uint8:
            return torch.from_numpy(data_N.reshape(place.shape))
        return torch.from_numpy(data_N).view(place.dtype).view(place.shape)

    def numbers(self, name: str) -> tuple[Any, ...]:
        """The values of a tensor. Raises KeyError."""
        return tuple(self[name].tolist()) if self._places[name].end > self._places[name].begin else ()


def encode(metadata: Mapping[str, str], tensors: Mapping[str, torch.Tensor]) -> list[memoryview]:
    """The blocks of a container, to be written one behind the other.

    The data of contiguous tensors are not copied. Tensors of wider types come before those of narrower ones, so that
    each starts at a multiple of its element's size.
    """
    places: dict[str, Any] = {}
    data, end = [], 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        assert start % tensor.itemsize == 0, "wider types come first"
        places[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        data.append(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    text = compact({"__metadata__": {"checksum": _ZEROS.decode(), **metadata}, **places}).encode("ascii")
    text += b" " * (-len(text) % 8)
    assert text.startswith(_START + _ZEROS)
    head = bytearray(len(text).to_bytes(_PREFIX, "little") + text)
    head[_CHECKSUM] = _digest(head, data)
    return [memoryview(head), *data]


def decode(where: object, raw_N: np.ndarray, *, verify: bool) -> Container:
    """Parse the bytes of a container (uint8). Raises CacheCorruptError, which starts with `where`.

    Cut or appended bytes are always found, a flipped one when `verify`. Without it only the header is read.
    """
    size = len(raw_N)
    start = _data_start(where, raw_N[:_PREFIX].tobytes(), size)
    head = raw_N[:start].tobytes()
    if verify and head[_CHECKSUM] != _digest(head, [raw_N[start:].data]):
        raise CacheCorruptError(f"{where}: the bytes do not match the checksum")
    metadata, places = _parse(where, head[_PREFIX:])
    expected = max((place.end for place in places.values()), default=0)
    if size - start != expected:
        raise CacheCorruptError(f"{where}: {expected} bytes of data expected, {size - start} found")
    return Container(metadata, places, raw_N[start:])


def compact(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))


def _digest(head: bytes | bytearray, data: Iterable[memoryview]) -> bytes:
    digest = xxhash.xxh3_128(bytes(head[: _CHECKSUM.start]))
    digest.update(_ZEROS)
    digest.update(bytes(head[_CHECKSUM.stop :]))
    for block in data:
        digest.update(block)
    return digest.hexdigest().encode("ascii")


def _data_start(where: object, prefix: bytes, size: int) -> int:
    if size < _PREFIX:
        raise CacheCorruptError(f"{where}: cut short, {size} bytes")
    start = _PREFIX + int.from_bytes(prefix, "little")
    if not _CHECKSUM.stop < start <= min(size, _LARGEST_HEADER):
        raise CacheCorruptError(f"{where}: no header, or cut short within it ({size} bytes)")
    return start


def _parse(where: object, head: bytes) -> tuple[dict[str, str], dict[str, _Place]]:
    try:
        header, _ = _JSON.raw_decode(head.decode("ascii"))
        metadata = header.pop("__metadata__")
        del metadata["checksum"]
        places, end = {}, 0
        for name, fields in header.items():
            dtype, shape, (begin, stop) = _DTYPES[fields["dtype"]], tuple(fields["shape"]), fields["data_offsets"]
            if begin != end or stop - begin != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"{name} does not fill its place")
            if min(shape, default=0) < 0 or begin % dtype.itemsize:
                raise ValueError(f"{name} cannot lie there")
            places[name], end = _Place(dtype, shape, begin, stop), stop
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CacheCorruptError(f"{where}: the header is damaged ({type(error).__name__}: {error})") from error
    return metadata, places
