"""What rendering a sample yields: token ids with the place of every medium, and the media's tensors.

Shape letters: T prompt tokens, F stored frames, H/W pixels of a resized frame, K vision tokens, D hidden size of the
language model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from mmrl.data.sample import MediaKind


@dataclass(frozen=True, slots=True)
class MediumFeatures:
    """What enters the language model for one medium, one row per vision token.

    tokens_KD: the output of tower and projector. deepstack: outputs of inner layers that Qwen3-VL adds to the first
    decoder layers.
    """

    kind: MediaKind
    tokens_KD: torch.Tensor
    deepstack: tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MediaEntry:
    """One medium, opened once: the uint8 frames every consumer reads, and what is known about them.

    key: hash of content and recipe; equal keys mean equal tensors.
    frames_F3HW: uint8 RGB after the resize, each source frame once (an odd clip is not padded here). A still is F = 1,
        or, where the family cuts it, its tiles row by row and then the whole picture. Of an entry of features on the
        meta device: a shape without values (`with_pixels` has them).
    grid_thw: Qwen families: patches (t, h, w) after temporal padding; num_tokens = t * h * w / merge_size**2. Families
        that see tiles: (F, rows, columns of tiles).
    timestamps_s: presentation time of each stored frame in seconds (empty for an image).
    frame_indices: index of each stored frame in the source's presentation order.
    source_size: (width, height) in original pixels, after EXIF or display rotation.
    source_fps, duration_s: of the source clip (None for an image).
    sample_fps: frames per second after sampling (None for an image).
    features: what the vision tower makes of the frames, where the cache has it: the tower is then not run.
    reopen: the same medium as pixels, for an entry of features.

    A 100 x 80 photo on a Qwen2.5-VL budget of 84 x 84 pixels: frames (1, 3, 56, 84), grid (1, 4, 6), 6 tokens.
    """

    key: str
    kind: MediaKind
    frames_F3HW: torch.Tensor
    grid_thw: tuple[int, int, int]
    num_tokens: int
    source_size: tuple[int, int]
    timestamps_s: tuple[float, ...] = ()
    frame_indices: tuple[int, ...] = ()
    source_fps: float | None = None
    duration_s: float | None = None
    sample_fps: float | None = None
    features: MediumFeatures | None = None
    reopen: Callable[[], MediaEntry] | None = None

    @property
    def model_size(self) -> tuple[int, int]:
        """(width, height) of the pixels the model sees; where pictures are cut into tiles, of one tile."""
        return self.frames_F3HW.shape[3], self.frames_F3HW.shape[2]


def with_pixels(entry: MediaEntry) -> MediaEntry:
    """The medium with its frames, and without features; an entry of pixels is returned as it is.

    Raises what the cache raises where it no longer has the pixels and they cannot be opened.
    """
    if entry.features is None:
        return entry
    if entry.reopen is not None:
        return entry.reopen()
    return replace(entry, features=None)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A run of placeholder tokens: ids[start : start + length] stand for tokens `first .. first + length` of a medium.

    An image is one run. A Qwen3-VL clip is one run per temporal patch, each with its own `first`.
    """

    start: int
    length: int
    medium: int
    first: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class RenderedPrompt:
    """A prompt as the model reads it.

    prompt_ids_T: int64, every medium expanded to its tokens.
    position_ids_3T: int64 (t, h, w) positions by the family's reference rule.
    next_position: the position of the first completed token, on all three axes.
    placeholders: in prompt order; `medium` indexes `media`.
    engine_ids: the unexpanded form (one placeholder per medium), for engines that expand by themselves.
    prompt_length of a completion turn continued with new media is simply longer; see render.extend.
    """

    sample_id: str
    prompt_ids_T: torch.Tensor
    position_ids_3T: torch.Tensor
    next_position: int
    placeholders: tuple[Placeholder, ...]
    media: tuple[MediaEntry, ...]
    engine_ids: tuple[int, ...]

    @property
    def num_vision_tokens(self) -> int:
        return sum(p.length for p in self.placeholders)
