"""How long a container says it is: RIFF (AVI) and EBML (Matroska, WebM) files cut short are told by nothing else."""

from __future__ import annotations

from pathlib import Path

_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_HEAD_BYTES = 4096


def is_cut(path: Path) -> bool:
    """Whether the file is shorter than its header promises. False where the header promises nothing."""
    with path.open("rb") as file:
        promised = promised_bytes(file.read(_HEAD_BYTES))
    return promised is not None and path.stat().st_size < promised


def promised_bytes(head: bytes) -> int | None:
    """File length by the header: RIFF stores it in bytes 4 to 8, EBML as the size of the segment after its header.

    `RIFF` + 100 little-endian: 108 bytes. Segments of unknown size (live recordings) promise nothing.
    """
    if head[:4] == b"RIFF":
        return 8 + int.from_bytes(head[4:8], "little")
    if head[:4] != _EBML:
        return None
    header_size, start = _ebml_size(head, 4)
    segment = start + header_size
    if head[segment : segment + 4] != _SEGMENT:
        return None
    size, start = _ebml_size(head, segment + 4)
    return None if size < 0 else start + size


def _ebml_size(data: bytes, start: int) -> tuple[int, int]:
    """An EBML size (-1: unknown) and the offset after it. Leading zero bits of the first byte tell its length."""
    length = 9 - data[start].bit_length()
    bits = int.from_bytes(data[start : start + length], "big") & ((1 << 7 * length) - 1)
    return (-1 if bits == (1 << 7 * length) - 1 else bits), start + length
