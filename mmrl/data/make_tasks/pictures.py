"""Puzzles of single pictures: tiles to put in order, turns, places of crops, two views, missing patches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image, ImageDraw

from mmrl.data.image import open_image
from mmrl.data.make_tasks.puzzle import LEAST_SIDE, Making, Puzzle, Source, UnusableError, has_texture
from mmrl.data.selfsupervised import cut_tiles, join_tiles, piece_numbers, quadrant_crop

TRIES = 20
QUADRANT_NAMES = ("top-left", "top-right", "bottom-left", "bottom-right")
ANGLES = (0, 90, 180, 270)
LEAST_DIFFERENCE = 4.0  # mean gray levels between the right patch and a wrong one
_GRAY, _FRAME = 127, (255, 0, 0)


class ImageJigsaw:
    """Visual Jigsaw: the tiles of a picture, each a picture of its own, in random order."""

    def __init__(self, grid: tuple[int, int]) -> None:
        self.rows, self.columns = grid

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        picture_HW3 = open_large_enough(source, least=(LEAST_SIDE * self.columns, LEAST_SIDE * self.rows))
        tiles = cut_tiles(picture_HW3, rows=self.rows, columns=self.columns)
        if len({tile.tobytes() for tile in tiles}) < len(tiles):
            raise UnusableError("two of its tiles are the same picture, so their order cannot be seen")
        paths = [making.media.picture(f"{source.name}/tile-{n:02d}", tile) for n, tile in enumerate(tiles)]
        order = making.rng.permutation(len(tiles)).tolist()
        labelled = "\n".join(f"Tile {n}: <image>" for n in range(1, len(tiles) + 1))
        prompt = (
            f"{labelled}\nThese are the tiles of one picture, {self.rows} rows of {self.columns}, in random order. "
            "Write the numbers of the tiles in the order of the original, row by row from the top left, "
            "separated by commas."
        )
        answer = ", ".join(map(str, piece_numbers(order)))
        columns = {"grid": [self.rows, self.columns], "order": order, "source": source.name}
        yield Puzzle(prompt, answer, images=[paths[piece] for piece in order], columns=columns)


def rotation(source: Source, making: Making) -> Iterator[Puzzle]:
    """SSL4RL: a picture and the same turned counter-clockwise by 0, 90, 180 or 270 degrees."""
    picture_HW3 = open_large_enough(source, least=(LEAST_SIDE, LEAST_SIDE))
    if any(np.array_equal(np.rot90(picture_HW3, quarter), picture_HW3) for quarter in (1, 2, 3)):
        raise UnusableError("it looks the same when turned, so the angle cannot be seen")
    quarter = making.turns.pick(len(ANGLES))
    path = making.media.picture(f"{source.name}/turned-{ANGLES[quarter]:03d}", np.rot90(picture_HW3, quarter))
    prompt = (
        "Original: <image>\nTurned: <image>\nBy how many degrees was the original turned counter-clockwise? "
        "Answer with 0, 90, 180 or 270."
    )
    yield Puzzle(prompt, str(ANGLES[quarter]), images=[str(source.path), path], columns={"source": source.name})


def position(source: Source, making: Making) -> Iterator[Puzzle]:
    """SSL4RL: a picture and a crop of one of its quadrants."""
    least = int(np.ceil(LEAST_SIDE / 0.8)) * 2
    picture_HW3 = open_large_enough(source, least=(least, least))
    quadrant = making.turns.pick(4)
    size = (picture_HW3.shape[1], picture_HW3.shape[0])
    for _ in range(TRIES):
        x1, y1, x2, y2 = quadrant_crop(size, quadrant=quadrant, rng=making.rng)
        crop_HW3 = picture_HW3[y1:y2, x1:x2]
        if has_texture(crop_HW3):
            break
    else:
        raise UnusableError(f"its {QUADRANT_NAMES[quadrant]} quadrant shows nothing: {TRIES} crops of one colour")
    path = making.media.picture(f"{source.name}/crop-v{making.version}", crop_HW3)
    prompt = (
        "Picture: <image>\nCrop: <image>\nIn which quadrant of the picture does the crop lie? "
        f"Answer with one of {', '.join(QUADRANT_NAMES)}."
    )
    columns = {"crop_px": [x1, y1, x2, y2], "source": source.name}
    yield Puzzle(prompt, QUADRANT_NAMES[quadrant], images=[str(source.path), path], columns=columns)


class Contrastive:
    """SSL4RL: two pictures, two random views of one (`positive`) or views of two (`negative`), as often."""

    names = ("positive", "negative")

    def __init__(self, sources: Sequence[Source]) -> None:
        if len(sources) < 2:
            raise UnusableError("a negative pair needs two different pictures, there is one")
        self.sources = sources

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        first_HW3 = open_large_enough(source, least=(LEAST_SIDE, LEAST_SIDE))
        rivals = [other for other in self.sources if other.name != source.name]
        rival = rivals[int(making.rng.integers(len(rivals)))]
        rival_HW3 = self._opened(rival)
        kind = making.turns.pick(2)
        shown = (first_HW3, (first_HW3, rival_HW3)[kind])
        paths = [
            making.media.picture(f"{source.name}/view-v{making.version}-{n}", simclr_view(pixels_HW3, making.rng))
            for n, pixels_HW3 in enumerate(shown)
        ]
        prompt = (
            "<image><image>Each picture is a crop of a photo whose colours may have been changed and which may have "
            "been mirrored. Do both come from the same photo? Answer positive if they do, negative if they do not."
        )
        pair = [source.name, (source.name, rival.name)[kind]]
        columns = {"options": list(self.names), "sources": pair}
        yield Puzzle(prompt, self.names[kind], images=paths, columns=columns)

    def _opened(self, rival: Source) -> np.ndarray:
        try:
            return open_large_enough(rival, least=(LEAST_SIDE, LEAST_SIDE))
        except UnusableError as error:
            raise UnusableError(f"its partner {rival.name} cannot serve: {error}") from error


def simclr_view(picture_HW3: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random view, 224 x 224: crop of 8 to 100 % of the area, flip, colour jitter, gray, blur.

    Source: SSL4RL (jitter 0.8, 0.8, 0.8, 0.2 at odds 0.8, gray 0.2, blur with sigma 0.1 to 2 at 0.5, flip 0.5).
    """
    import torch
    from torchvision.transforms import v2

    view = v2.Compose(
        [
            v2.RandomResizedCrop(224, scale=(0.08, 1.0), antialias=True),
            v2.RandomHorizontalFlip(0.5),
            v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
            v2.RandomGrayscale(0.2),
            v2.RandomApply([v2.GaussianBlur(23, sigma=(0.1, 2.0))], p=0.5),
        ]
    )
    with torch.random.fork_rng(devices=[]):  # torchvision takes chance from torch's global generator only
        torch.manual_seed(int(rng.integers(2**63)))
        pixels_3HW = view(torch.from_numpy(picture_HW3.copy()).permute(2, 0, 1))
    return pixels_3HW.permute(1, 2, 0).contiguous().numpy()


class MaskedPatch:
    """Several cells of a picture are gray; which of the patches cut from them belongs into the framed one?

    All patches that are offered are missing from the picture, so none can be ruled out by finding it there.
    """

    def __init__(self, grid: tuple[int, int], pieces: int) -> None:
        self.rows, self.columns, self.pieces = *grid, pieces

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        picture_HW3 = open_large_enough(source, least=(LEAST_SIDE * self.columns, LEAST_SIDE * self.rows))
        tiles = cut_tiles(picture_HW3, rows=self.rows, columns=self.columns)
        cells = self._cells(tiles, making.rng)
        right = making.turns.pick(self.pieces)
        name = f"{source.name}/masked-v{making.version}"
        masked = making.media.picture(name, self._masked(tiles, cells, framed=cells[right]))
        patches = [making.media.picture(f"{source.name}/cell-{cell:02d}", tiles[cell]) for cell in cells]
        letters = [chr(ord("A") + n) for n in range(self.pieces)]
        offered = "\n".join(f"{letter}: <image>" for letter in letters)
        prompt = (
            f"Picture: <image>\nPatches of it were removed.\n{offered}\n"
            "Which patch belongs into the gray cell with the red frame? Answer with its letter."
        )
        columns = {"options": letters, "cells": cells, "grid": [self.rows, self.columns], "source": source.name}
        yield Puzzle(prompt, letters[right], images=[masked, *patches], columns=columns)

    def _cells(self, tiles: Sequence[np.ndarray], rng: np.random.Generator) -> list[int]:
        """Cells with texture no two of which look alike, in random order."""
        chosen: list[int] = []
        for cell in rng.permutation(len(tiles)).tolist():
            unlike = all(_difference(tiles[cell], tiles[other]) >= LEAST_DIFFERENCE for other in chosen)
            if has_texture(tiles[cell]) and unlike:
                chosen.append(cell)
            if len(chosen) == self.pieces:
                return chosen
        raise UnusableError(
            f"only {len(chosen)} of its cells show something that the others do not, {self.pieces} needed"
        )

    def _masked(self, tiles: Sequence[np.ndarray], cells: Sequence[int], *, framed: int) -> np.ndarray:
        shown = [np.full_like(tile, _GRAY) if n in cells else tile for n, tile in enumerate(tiles)]
        image = Image.fromarray(join_tiles(shown, columns=self.columns))
        height, width = tiles[0].shape[:2]
        row, column = divmod(framed, self.columns)
        box = (column * width, row * height, (column + 1) * width - 1, (row + 1) * height - 1)
        ImageDraw.Draw(image).rectangle(box, outline=_FRAME, width=max(2, min(height, width) // 16))
        return np.asarray(image)


def _difference(first_HW3: np.ndarray, second_HW3: np.ndarray) -> float:
    return float(np.abs(first_HW3.astype(np.float32) - second_HW3).mean())


def open_large_enough(source: Source, *, least: tuple[int, int]) -> np.ndarray:
    """The picture, at least `least` (width, height) pixels. Raises MediaError, UnusableError for a smaller one."""
    picture_HW3 = open_image(source.path)
    height, width = picture_HW3.shape[:2]
    if width < least[0] or height < least[1]:
        raise UnusableError(f"{width}x{height} pixels, this kind needs at least {least[0]}x{least[1]}")
    return picture_HW3
