"""How alike two pictures are by their pixels, and PNG bytes as pixels. Pure.

Shapes: H height, W width, 3 channels (red, green, blue).
"""

from __future__ import annotations

import io
import math
import warnings
from typing import Literal

import numpy as np
from PIL import Image

Measure = Literal["mse", "ssim"]
_MOST_PIXELS = 16_000_000


def png_pixels(png: bytes) -> np.ndarray | None:
    """uint8 RGB (H, W, 3) of a PNG, transparent parts on white; None for what is none, or has above 16 megapixels."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(png), formats=("PNG",))
            if image.width * image.height > _MOST_PIXELS:
                return None
            rgba = image.convert("RGBA")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    white = Image.new("RGBA", rgba.size, "white")
    return np.asarray(Image.alpha_composite(white, rgba).convert("RGB"))


def resized(picture_HW3: np.ndarray, *, width: int, height: int) -> np.ndarray:
    """The picture stretched to a size, uint8."""
    return np.asarray(Image.fromarray(picture_HW3).resize((width, height), Image.Resampling.BICUBIC))


def stretched(picture_HW3: np.ndarray, *, like: np.ndarray) -> np.ndarray:
    """The picture at the size of another one; itself where it has that size."""
    height, width = like.shape[:2]
    return picture_HW3 if picture_HW3.shape[:2] == (height, width) else resized(picture_HW3, width=width, height=height)


def fitted(picture_HW3: np.ndarray, *, longest: int) -> np.ndarray:
    """The picture made smaller, if it is larger, so that its longest side is `longest`."""
    height, width = picture_HW3.shape[:2]
    scale = min(1.0, longest / max(height, width))
    return resized(picture_HW3, width=max(1, round(width * scale)), height=max(1, round(height * scale)))


def limited(picture_HW3: np.ndarray, *, max_pixels: int) -> np.ndarray:
    """The picture made smaller in its proportions, if it is larger, to at most `max_pixels` (at least one a side).

    >>> limited(np.zeros((300, 400, 3), np.uint8), max_pixels=30_000).shape
    (150, 200, 3)
    """
    height, width = picture_HW3.shape[:2]
    if height * width <= max_pixels:
        return picture_HW3
    scale = math.sqrt(max_pixels / (height * width))
    # One side may be below a pixel: then the other has what is left of the budget.
    new_height = min(max(1, int(height * scale)), max_pixels)
    return resized(picture_HW3, width=max(1, min(int(width * scale), max_pixels // new_height)), height=new_height)


def mean_difference(picture_HW3: np.ndarray, reference_HW3: np.ndarray) -> float:
    """Mean absolute difference of pixels in 0..1; the picture is stretched to the reference's size first.

    >>> grey, white = np.full((4, 4, 3), 204, np.uint8), np.full((2, 2, 3), 255, np.uint8)
    >>> round(mean_difference(grey, white), 6)
    0.2
    """
    return float(np.abs(stretched(picture_HW3, like=reference_HW3).astype(np.float64) - reference_HW3).mean() / 255.0)


def similarity(picture_HW3: np.ndarray, reference_HW3: np.ndarray, *, measure: Measure = "mse") -> float:
    """How much of what tells the reference from an even surface the picture gets right, 0 to 1.

    mse: 1 - error / error of the reference's mean colour (the explained variance). ssim: structural similarity,
    measured from that of the mean colour in the same way. An even picture scores 0, an equal one 1; what is worse than
    even scores 0. The picture is stretched to the reference's size first.

    >>> checks = np.indices((8, 8)).sum(0)[..., None].repeat(3, 2).astype(np.uint8) % 2 * 255
    >>> similarity(checks, checks), similarity(np.full_like(checks, 255), checks), similarity(255 - checks, checks)
    (1.0, 0.0, 0.0)
    """
    found = stretched(picture_HW3, like=reference_HW3).astype(np.float64)
    wanted = reference_HW3.astype(np.float64)
    even = np.broadcast_to(wanted.mean(axis=(0, 1)), wanted.shape)
    if measure == "mse":
        least, got = -np.square(even - wanted).mean(), -np.square(found - wanted).mean()
        best = 0.0
    else:
        least, got = _ssim(even, wanted), _ssim(found, wanted)
        best = 1.0
    if best - least < 1e-9:  # the reference itself is even: only the same surface is right
        return float(np.abs(found - wanted).max() < 1.0)
    return float(min(1.0, max(0.0, (got - least) / (best - least))))


def _ssim(found_HW3: np.ndarray, wanted_HW3: np.ndarray) -> float:
    from skimage.metrics import structural_similarity

    side = min(7, *wanted_HW3.shape[:2])
    window = side - 1 + side % 2
    mean = structural_similarity(found_HW3, wanted_HW3, win_size=window, channel_axis=2, data_range=255.0)
    return np.asarray(mean, dtype=np.float64).item()
