"""Marks on the pixels that a model sees: what is outside of boxes darkened, boxes circled, frames numbered, noise.

All take uint8 frames as the cache has them, leave them as they are, and return new ones of the same shape. Boxes are
(x1, y1, x2, y2) in pixels of these frames, the same ones on every frame; `each_frame` gives every frame its own.

Shape letters: F frames, H/W pixels.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

Box = Sequence[float]
_MARK = (255, 0, 0)


def darkened(frames_F3HW: torch.Tensor, boxes: Sequence[Box], *, strength: float = 0.6) -> torch.Tensor:
    """Pixels outside of all boxes times (1 - strength). Without a box nothing is dark.

    A pixel is inside where its centre is: box (0, 0, 1, 2) holds the first pixel of the first two rows.
    """
    if not boxes:
        return frames_F3HW.clone()
    height, width = frames_F3HW.shape[2:]
    x_W, y_H = torch.arange(width) + 0.5, torch.arange(height) + 0.5
    inside_HW = torch.zeros(height, width, dtype=torch.bool)
    for x1, y1, x2, y2 in boxes:
        inside_HW |= ((y_H >= y1) & (y_H < y2))[:, None] & ((x_W >= x1) & (x_W < x2))
    dark_F3HW = (frames_F3HW.float() * (1 - strength)).round().to(torch.uint8)
    return torch.where(inside_HW, frames_F3HW, dark_F3HW)


def circled(frames_F3HW: torch.Tensor, boxes: Sequence[Box]) -> torch.Tensor:
    """A red ellipse around each box, that touches the middles of its sides."""
    height, width = frames_F3HW.shape[2:]
    line = max(2, min(height, width) // 100)

    def draw(picture: ImageDraw.ImageDraw, frame: int) -> None:
        for x1, y1, x2, y2 in boxes:
            picture.ellipse((x1, y1, max(x1, x2 - 1), max(y1, y2 - 1)), outline=_MARK, width=line)

    return _drawn(frames_F3HW, draw)


def each_frame(
    mark: Callable[[torch.Tensor, Sequence[Box]], torch.Tensor],
    frames_F3HW: torch.Tensor,
    boxes_F: Sequence[Sequence[Box]],
) -> torch.Tensor:
    """`darkened` or `circled` with boxes of each frame. A frame without boxes stays as it is."""
    marked = [mark(frame_13HW, boxes) for frame_13HW, boxes in zip(frames_F3HW.split(1), boxes_F, strict=True)]
    return torch.cat(marked)


def from_times(times_s: Sequence[float], frames_s: Sequence[float]) -> list[int | None]:
    """For each frame the last of the rising times that is not behind it; None before the first one.

    >>> from_times([1.0, 2.5], [0.0, 1.0, 2.0, 3.0])
    [None, 0, 0, 1]
    """
    found = [bisect.bisect_right(times_s, frame) - 1 for frame in frames_s]
    return [None if number < 0 else number for number in found]


def numbered(frames_F3HW: torch.Tensor) -> torch.Tensor:
    """The number of each frame, from 1, in its lower right corner."""
    height, width = frames_F3HW.shape[2:]
    font = ImageFont.load_default(max(10, min(height, width) // 8))

    def draw(picture: ImageDraw.ImageDraw, frame: int) -> None:
        place = (width - 2, height - 2)
        picture.text(place, str(frame + 1), fill=_MARK, font=font, anchor="rd", stroke_width=1, stroke_fill="white")

    return _drawn(frames_F3HW, draw)


def noisy(frames_F3HW: torch.Tensor, level: float, *, seed: int) -> torch.Tensor:
    """Gaussian noise whose standard deviation is `level` of the range of pixels (0.1: 25.5), clipped to it."""
    noise = np.random.default_rng(seed).normal(0.0, 255.0 * level, tuple(frames_F3HW.shape))
    pixels = frames_F3HW.numpy() + noise
    return torch.from_numpy(pixels.round().clip(0, 255).astype(np.uint8))


def _drawn(frames_F3HW: torch.Tensor, draw: Callable[[ImageDraw.ImageDraw, int], None]) -> torch.Tensor:
    frames = []
    for number, frame_3HW in enumerate(frames_F3HW):
        picture = Image.fromarray(frame_3HW.permute(1, 2, 0).contiguous().numpy())
        draw(ImageDraw.Draw(picture), number)
        frames.append(torch.from_numpy(np.array(picture)).permute(2, 0, 1))
    return torch.stack(frames)
