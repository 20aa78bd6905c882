"""Frames made smaller without loss: each row as its difference from the row above, red and blue from green, then zstd.

Pictures change little from row to row and colour planes resemble each other, so the differences are small numbers;
zstd alone finds little in pixels.

Shape letters: F frames, H/W pixels, N bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np
import torch

from mmrl.errors import CacheError

ZSTD = "zstd"
# Higher levels make these differences no smaller, only slower.
_LEVEL = 1


def compressed(frames_F3HW: torch.Tensor) -> torch.Tensor:
    """uint8 (N,). Raises CacheError where the library is missing."""
    deltas_F3HW = frames_F3HW.numpy().copy()
    deltas_F3HW[:, 0::2] -= frames_F3HW.numpy()[:, 1:2]
    above_F3HW = deltas_F3HW[:, :, :-1].copy()
    deltas_F3HW[:, :, 1:] -= above_F3HW
    return torch.frombuffer(bytearray(_library().compress(deltas_F3HW.tobytes(), _LEVEL)), dtype=torch.uint8)


def expanded(data_N: np.ndarray, shape: Sequence[int]) -> torch.Tensor:
    """The frames again, uint8 of this shape. Raises ValueError for data that do not hold them; CacheError."""
    zstd, size = _library(), math.prod(shape)
    try:
        if len(shape) != 4 or shape[1] != 3 or zstd.get_frame_info(data_N.data).decompressed_size != size:
            raise ValueError(f"the compressed data are not frames of shape {list(shape)}")
        raw = zstd.ZstdDecompressor().decompress(data_N.data, size)
    except zstd.ZstdError as error:
        raise ValueError(f"the compressed data cannot be read: {error}") from error
    if len(raw) != size:
        raise ValueError(f"the compressed data hold {len(raw)} of {size} bytes")
    frames_F3HW = np.frombuffer(bytearray(raw), np.uint8).reshape(*shape)
    for row in range(1, shape[2]):
        frames_F3HW[:, :, row] += frames_F3HW[:, :, row - 1]
    frames_F3HW[:, 0::2] += frames_F3HW[:, 1:2]
    return torch.from_numpy(frames_F3HW)


def check_library() -> None:
    """Raise CacheError, which names the remedy, where the library is missing."""
    _library()


def _library() -> ModuleType:
    try:
        from backports import zstd
    except ImportError as error:
        raise CacheError("compressed cache entries need backports.zstd: pip install 'mmrl[compress]'") from error
    return zstd
