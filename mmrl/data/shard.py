"""The file of a shard: many entries behind each other, and the index that finds them.

    entries   each from a multiple of ALIGNMENT, in the order they were packed (that of their making)
    index     one record an entry, by key: key 32 bytes, offset u64, length u64, xxh3-128 of the entry's bytes
    footer    64 bytes: magic, offset of the index u64, count u64, xxh3-128 of the index and the two numbers

Numbers are little-endian. Nothing in it is trusted: every offset and length is compared with the file's size before it
is used, and no more is read than the file holds.

Shape letters: N bytes, R records.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from mmrl.errors import CacheCorruptError

SHARD_SUFFIX = ".shard"
ALIGNMENT = 64
RECORD = np.dtype([("key", "S32"), ("offset", "<u8"), ("length", "<u8"), ("checksum", "S16")])
_MAGIC = b"mmrl shard 1".ljust(16, b"\n")
_FOOTER = struct.Struct("<16sQQ16s16x")

ReadRange = Callable[[int, int], bytes]
"""(offset, length) -> those bytes of a file."""


@dataclass(frozen=True, slots=True, eq=False)
class ShardIndex:
    """What a shard holds. records_R: RECORD, sorted by key; keys_R: the first 8 bytes of each key as a number."""

    where: str
    records_R: np.ndarray
    keys_R: np.ndarray

    def key(self, row: int) -> str:
        return key_bytes(self.records_R["key"][row]).hex()

    def place(self, row: int) -> slice:
        record = self.records_R[row]
        return slice(int(record["offset"]), int(record["offset"]) + int(record["length"]))

    def check(self, row: int, bytes_N: np.ndarray) -> None:
        """Raise CacheCorruptError unless these are the bytes that were packed."""
        if xxhash.xxh3_128_digest(bytes_N.data) != self.records_R["checksum"][row].ljust(16, b"\0"):
            raise CacheCorruptError(f"{self.where}: the entry {self.key(row)}: its bytes do not match the checksum")


def key_bytes(key: bytes) -> bytes:
    """A key out of a record: numpy drops zeros at the end."""
    return key.ljust(32, b"\0")


def key_number(key: str) -> np.uint64:
    """The first 8 bytes of a key as a number, by which the index is searched."""
    return np.uint64(int(key[:16], 16))


def shard_blocks(entries: Iterable[tuple[str, np.ndarray]]) -> Iterator[memoryview]:
    """The bytes of a shard with these entries (key, its bytes), drawn one at a time."""
    records, offset = [], 0
    for key, bytes_N in entries:
        length = len(bytes_N)
        records.append((bytes.fromhex(key), offset, length, xxhash.xxh3_128_digest(bytes_N.data)))
        yield bytes_N.data
        padding = -length % ALIGNMENT
        yield memoryview(bytes(padding))
        offset += length + padding
    index = np.array(sorted(records), RECORD).tobytes()
    yield memoryview(index)
    yield memoryview(_FOOTER.pack(_MAGIC, offset, len(records), _index_digest(index, offset)))


def read_index(where: str, size: int, read: ReadRange) -> ShardIndex:
    """The index of a shard of `size` bytes. Raises CacheCorruptError for anything that cannot be a shard's."""
    if size < _FOOTER.size:
        raise _damaged(where, f"{size} bytes")
    magic, offset, count, digest = _FOOTER.unpack(read(size - _FOOTER.size, _FOOTER.size))
    if magic != _MAGIC:
        raise _damaged(where, "no footer, or cut short")
    if not count or offset + count * RECORD.itemsize + _FOOTER.size != size:
        raise _damaged(where, f"{count} entries cannot lie in {size} bytes")
    index = read(offset, count * RECORD.itemsize)
    if len(index) != count * RECORD.itemsize or _index_digest(index, offset) != digest:
        raise _damaged(where, "the bytes do not match the checksum")
    records_R = np.frombuffer(index, RECORD)
    ends_R = records_R["offset"] + records_R["length"]
    if (ends_R > offset).any() or (ends_R < records_R["offset"]).any():
        raise _damaged(where, "an entry beyond the end")
    keys_R = np.frombuffer(index, ">u8").reshape(count, -1)[:, 0].astype(np.uint64)
    return ShardIndex(where, records_R, keys_R)


def read_index_of(path: Path) -> ShardIndex:
    """The index of a shard file. Raises FileNotFoundError, CacheCorruptError."""
    with path.open("rb", buffering=0) as file:

        def read(offset: int, length: int) -> bytes:
            return os.pread(file.fileno(), length, offset)

        return read_index(str(path), os.fstat(file.fileno()).st_size, read)


def _index_digest(index: bytes, offset: int) -> bytes:
    return xxhash.xxh3_128_digest(index + struct.pack("<QQ", offset, len(index)))


def _damaged(where: str, fact: str) -> CacheCorruptError:
    remedy = "delete the file and run `mmrl preprocess`, which rebuilds what it held"
    return CacheCorruptError(f"{where}: the index of the shard is damaged ({fact}); {remedy}")
