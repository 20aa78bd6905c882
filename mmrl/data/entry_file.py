"""One cached medium as bytes: a container (container.py) of its frames and their times.

    metadata  checksum, recipe, source, medium
    tensors   seconds float64 (F,) and indices int32 (F,): of each frame of a clip; (0,) for a picture
              frames uint8 (F, 3, H, W), each source frame once; where the metadata say `compressed` (a codec and
              that shape) uint8 (N,): what compress.py makes of them

Shape letters: F frames, H/W pixels, N bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mmrl.data.compress import ZSTD, compressed, expanded
from mmrl.data.container import Container, compact, decode, encode
from mmrl.errors import CacheCorruptError, CacheError


@dataclass(frozen=True, slots=True, eq=False)
class StoredEntry:
    """What one entry holds.

    recipe: canonical JSON of the recipe. source: the text of its fingerprint. medium: sizes, grid, rates.
    timestamps_s, frame_indices: of each frame of a clip; empty for a picture.
    """

    recipe: str
    source: str
    medium: dict[str, Any]
    frames_F3HW: torch.Tensor
    timestamps_s: tuple[float, ...] = ()
    frame_indices: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.frames_F3HW.shape)


def entry_blocks(entry: StoredEntry, *, compress: str = "none") -> list[memoryview]:
    """The bytes of an entry, in blocks to be written one behind the other. compress: `none` or `zstd`."""
    frames_F3HW = entry.frames_F3HW
    assert frames_F3HW.dtype == torch.uint8 and frames_F3HW.ndim == 4 and frames_F3HW.shape[1] == 3
    assert len(entry.timestamps_s) == len(entry.frame_indices)
    tensors = {
        "seconds": torch.tensor(entry.timestamps_s, dtype=torch.float64),
        "indices": torch.tensor(entry.frame_indices, dtype=torch.int32),
        "frames": frames_F3HW,
    }
    metadata = {"recipe": entry.recipe, "source": entry.source, "medium": compact(entry.medium)}
    if compress == ZSTD:
        tensors["frames"] = compressed(frames_F3HW)
        metadata["compressed"] = compact({"codec": ZSTD, "shape": entry.shape})
    return encode(metadata, tensors)


def read_entry(where: object, raw_N: np.ndarray, *, verify: bool) -> StoredEntry:
    """The entry in these bytes; its frames are a view of them.

    Cut bytes are always found, a flipped one when `verify`; both raise CacheCorruptError, which starts with `where`.
    Without `verify` the pixels are not read, unless they are compressed: then the frames are memory of their own.
    """
    container = decode(where, raw_N, verify=verify)
    try:
        frames_F3HW = _frames(container)
        if frames_F3HW.ndim != 4 or frames_F3HW.shape[1] != 3 or frames_F3HW.dtype != torch.uint8:
            raise ValueError(f"frames {frames_F3HW.dtype} {list(frames_F3HW.shape)}")
        return StoredEntry(
            recipe=container.metadata["recipe"],
            source=container.metadata["source"],
            medium=json.loads(container.metadata["medium"]),
            frames_F3HW=frames_F3HW,
            timestamps_s=container.numbers("seconds"),
            frame_indices=container.numbers("indices"),
        )
    except CacheError:  # a library is missing
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise CacheCorruptError(f"{where}: the header is damaged ({type(error).__name__}: {error})") from error


def _frames(container: Container) -> torch.Tensor:
    if "compressed" not in container.metadata:
        return container["frames"]
    how = json.loads(container.metadata["compressed"])
    if how["codec"] != ZSTD:
        raise ValueError(f"compressed with {how['codec']!r}, which this version does not know")
    return expanded(container["frames"].numpy(), how["shape"])
