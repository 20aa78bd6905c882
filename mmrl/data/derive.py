"""Media made from media: noise added, frames dropped or reordered. They get keys of their own and no file.

Shape letters: F frames, H/W pixels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import torch
import xxhash

from mmrl.data.rendered import MediaEntry
from mmrl.data.vision import VisionGeometry


def derive(
    entry: MediaEntry,
    frames_F3HW: torch.Tensor,
    *,
    how: str,
    geometry: VisionGeometry,
    kept: Sequence[int] | None = None,
) -> MediaEntry:
    """An entry with other frames of the same size, e.g. `derive(clip, clip.frames_F3HW[::2], how="every second", ...)`.

    how: what was done, in words; part of the key, as are the frames' bytes.
    kept: the entry's frames whose times and indices the new frames have; None: the same times (noise, a shuffle).
    The clip's duration stays, so sample_fps falls with the number of frames: 8 of 16 frames at 2 fps are 1 fps.
    """
    kept = range(entry.frames_F3HW.shape[0]) if kept is None else kept
    assert frames_F3HW.dtype == torch.uint8 and frames_F3HW.shape[1:] == entry.frames_F3HW.shape[1:]
    assert frames_F3HW.shape[0] == len(kept), f"{frames_F3HW.shape[0]} frames but {len(kept)} kept"
    _, h, w = entry.grid_thw
    grid_thw = (-(-len(kept) // geometry.temporal_patch_size), h, w)
    content = xxhash.xxh3_128_hexdigest(frames_F3HW.contiguous().numpy().data)
    return replace(
        entry,
        key=hashlib.sha256(f"derived {entry.key} {how!r} {list(kept)} {content}".encode()).hexdigest(),
        frames_F3HW=frames_F3HW,
        features=None,
        reopen=None,
        grid_thw=grid_thw,
        num_tokens=geometry.count_tokens(entry.kind, grid_thw, entry.source_size),
        timestamps_s=_pick(entry.timestamps_s, kept),
        frame_indices=_pick(entry.frame_indices, kept),
        sample_fps=entry.sample_fps and entry.sample_fps * len(kept) / entry.frames_F3HW.shape[0],
    )


def _pick(values: tuple, kept: Sequence[int]) -> tuple:
    return tuple(values[index] for index in kept) if values else ()
