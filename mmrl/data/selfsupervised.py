"""Self-supervised tasks: puzzles with exact answers made from pictures and clips that carry no labels.

Every maker is a pure function of arrays. The caller chooses the answer (so that answers can be balanced) and passes a
random generator where something else is left to chance. Pictures are uint8 RGB (H, W, 3), clips (F, H, W, 3).

The makers return new arrays and the answer as a dataset states it: a letter, a box in pixels, a span in frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

QUADRANTS = "ABCD"  # A top left, B top right, C bottom left, D bottom right


def random_crop(
    picture_HW3: np.ndarray, *, size: int, rng: np.random.Generator, scale: tuple[float, float] = (0.35, 0.8)
) -> np.ndarray:
    """A square cut from a random place and resized to size x size; its side is a share `scale` of the shorter side."""
    height, width = picture_HW3.shape[:2]
    side = max(1, int(rng.uniform(*scale) * min(height, width)))
    left, top = int(rng.integers(0, width - side + 1)), int(rng.integers(0, height - side + 1))
    return resize(picture_HW3[top : top + side, left : left + side], width=size, height=size)


def resize(picture_HW3: np.ndarray, *, width: int, height: int) -> np.ndarray:
    """The picture at width x height pixels, bicubic."""
    from PIL import Image

    return np.asarray(Image.fromarray(picture_HW3).resize((width, height), Image.Resampling.BICUBIC))


def paste_patch_quadrant(
    picture_HW3: np.ndarray, patch_HW3: np.ndarray, *, quadrant: int, rng: np.random.Generator
) -> tuple[np.ndarray, str]:
    """The picture with the patch at a random place inside one quadrant, and the quadrant's letter.

    quadrant: 0 to 3, in reading order. Raises ValueError for a patch larger than a quadrant.

    >>> pixels, letter = paste_patch_quadrant(
    ...     np.zeros((8, 8, 3), np.uint8), np.full((4, 4, 3), 255, np.uint8), quadrant=3, rng=np.random.default_rng(0)
    ... )
    >>> letter, int(pixels[4:, 4:].min()), int(pixels.sum()) == 16 * 3 * 255
    ('D', 255, True)
    """
    height, width = (side // 2 for side in picture_HW3.shape[:2])
    rows, columns = patch_HW3.shape[:2]
    if rows > height or columns > width:
        raise ValueError(f"a patch of {columns}x{rows} pixels does not fit a quadrant of {width}x{height}")
    left = quadrant % 2 * width + int(rng.integers(0, width - columns + 1))
    top = quadrant // 2 * height + int(rng.integers(0, height - rows + 1))
    return _paste(picture_HW3, patch_HW3, left=left, top=top), QUADRANTS[quadrant]


def paste_patch_box(
    picture_HW3: np.ndarray, patch_HW3: np.ndarray, *, cell: int, cells_per_side: int = 3
) -> tuple[np.ndarray, tuple[int, int, int, int]]:
    """The picture with the patch filling one cell of a regular layout, and its box `x1, y1, x2, y2` in pixels.

    cell: 0 to cells_per_side ** 2 - 1, in reading order. The patch is resized to the cell. Cells do not overlap and
    all have one size, so a box written without looking has a mean IoU of 1 / (number of cells) at best.

    >>> pixels, box = paste_patch_box(np.zeros((9, 9, 3), np.uint8), np.full((3, 3, 3), 7, np.uint8), cell=5)
    >>> box, int(pixels[3:6, 6:9].min()), int(pixels.sum())
    ((6, 3, 9, 6), 7, 189)
    """
    height, width = picture_HW3.shape[:2]
    row, column = divmod(cell, cells_per_side)
    left, right = (width * n // cells_per_side for n in (column, column + 1))
    top, bottom = (height * n // cells_per_side for n in (row, row + 1))
    patch = resize(patch_HW3, width=right - left, height=bottom - top)
    return _paste(picture_HW3, patch, left=left, top=top), (left, top, right, bottom)


def insert_segment(clip_F3: np.ndarray, segment_F3: np.ndarray, *, start: int) -> tuple[np.ndarray, tuple[int, int]]:
    """The clip with frames from `start` on replaced by another clip's, and the span `start, end` in frames.

    The end is the first frame after the segment, so at r frames per second the span is start / r to end / r seconds.
    Raises ValueError for frames of another size or a segment that reaches past the clip's end.

    >>> clip, span = insert_segment(np.zeros((6, 2, 2, 3), np.uint8), np.ones((2, 2, 2, 3), np.uint8), start=1)
    >>> span, clip[:, 0, 0, 0].tolist()
    ((1, 3), [0, 1, 1, 0, 0, 0])
    """
    end = start + len(segment_F3)
    if segment_F3.shape[1:] != clip_F3.shape[1:]:
        raise ValueError(f"a segment of frames {segment_F3.shape[1:]} does not fit a clip of {clip_F3.shape[1:]}")
    if start < 0 or end > len(clip_F3):
        raise ValueError(f"frames {start} to {end} do not lie inside a clip of {len(clip_F3)} frames")
    changed = clip_F3.copy()
    changed[start:end] = segment_F3
    return changed, (start, end)


def piece_numbers(order: Sequence[int]) -> list[int]:
    """Where each piece of the original stands now, counted from 1: the answer of a puzzle of shuffled pieces.

    order: at place j the piece `order[j]` of the original is shown, both counted from 0. Source: Visual Jigsaw, SSL4RL.

    >>> piece_numbers([2, 0, 3, 1])
    [2, 4, 1, 3]
    """
    places = {piece: place for place, piece in enumerate(order, start=1)}
    return [places[piece] for piece in range(len(order))]


def cut_tiles(picture_HW3: np.ndarray, *, rows: int, columns: int) -> list[np.ndarray]:
    """Tiles of one size in reading order; what is left over by the division is cut off evenly at the edges.

    >>> [tile.shape for tile in cut_tiles(np.zeros((7, 9, 3), np.uint8), rows=2, columns=2)]
    [(3, 4, 3), (3, 4, 3), (3, 4, 3), (3, 4, 3)]
    """
    height, width = picture_HW3.shape[0] // rows, picture_HW3.shape[1] // columns
    top, left = (picture_HW3.shape[0] - rows * height) // 2, (picture_HW3.shape[1] - columns * width) // 2
    return [
        picture_HW3[top + row * height :, left + column * width :][:height, :width]
        for row in range(rows)
        for column in range(columns)
    ]


def join_tiles(tiles: Sequence[np.ndarray], *, columns: int) -> np.ndarray:
    """The picture that tiles in reading order make: the inverse of `cut_tiles`, but for what that cut off."""
    lines = [np.concatenate(tiles[first : first + columns], axis=1) for first in range(0, len(tiles), columns)]
    return np.concatenate(lines, axis=0)


def quadrant_crop(
    size: tuple[int, int], *, quadrant: int, rng: np.random.Generator, least: int = 28
) -> tuple[int, int, int, int]:
    """A box `x1, y1, x2, y2` at random inside one quadrant of a picture of `size` (width, height).

    Its sides are 20 to 80 % of the quadrant's, and at least `least` pixels. Source: SSL4RL. Raises ValueError where
    80 % of the quadrant is less than that: for sides below 70 pixels with the default.
    """
    lows, highs = [], []
    for length, half in zip((size[0] // 2, size[1] // 2), (quadrant % 2, quadrant // 2), strict=True):
        small, large = max(least, int(np.ceil(0.2 * length))), int(0.8 * length)
        if small > large:
            raise ValueError(f"a quadrant side of {length} pixels has no room for a crop of {least}")
        side = int(rng.integers(small, large + 1))
        low = half * length + int(rng.integers(0, length - side + 1))
        lows.append(low)
        highs.append(low + side)
    return lows[0], lows[1], highs[0], highs[1]


def jigsaw_spans(num_frames: int, *, pieces: int, trim: float = 0.1) -> list[range]:
    """The frames of each of `pieces` equal clips, trimmed at both ends so that no clip continues its neighbour.

    Frames at the start are dropped until the rest is a multiple of 10 * pieces. trim: share of a clip that goes at
    each end (Visual Jigsaw's code 0.1, its paper 0.05). Empty for fewer than 10 * pieces frames.

    >>> jigsaw_spans(250, pieces=2)
    [range(22, 118), range(142, 238)]
    """
    kept = num_frames - num_frames % (10 * pieces)
    length = kept // pieces
    cut = round(trim * length)
    starts = range(num_frames - kept, num_frames, length) if length else ()
    return [range(start + cut, start + length - cut) for start in starts]


def widened(
    place: tuple[int, ...], *, step: int, limits: tuple[int, ...], odds: float, rng: np.random.Generator
) -> tuple[int, ...]:
    """An imprecise box or span around `place`: each edge moves outward by `step` with probability `odds`.

    place: lower edges, then upper edges (`x1, y1, x2, y2` or `start, end`). No edge passes 0 or its limit.
    limits: of the upper edges (width and height, or the clip's length).

    >>> widened((0, 2, 2, 4), step=1, limits=(6, 6), odds=1.0, rng=np.random.default_rng(0))
    (0, 1, 3, 5)
    """
    moves = np.where(rng.random(len(place)) < odds, step, 0).tolist()
    half = len(place) // 2
    lower = (max(0, edge - move) for edge, move in zip(place[:half], moves[:half], strict=True))
    upper = (min(limit, edge + move) for edge, move, limit in zip(place[half:], moves[half:], limits, strict=True))
    return (*lower, *upper)


def _paste(picture_HW3: np.ndarray, patch_HW3: np.ndarray, *, left: int, top: int) -> np.ndarray:
    changed = picture_HW3.copy()
    changed[top : top + patch_HW3.shape[0], left : left + patch_HW3.shape[1]] = patch_HW3
    return changed
