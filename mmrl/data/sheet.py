"""Contact sheets: the frames of media as the model sees them, with labels, and boxes, points and spans drawn in.

Shape letters: F frames, H/W pixels of a resized frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mmrl.data.rendered import MediaEntry, with_pixels
from mmrl.data.sample import GeometryKind
from mmrl.scoring.geometry import convert_box, convert_point, convert_time

COLUMNS = 8
LEAST_WIDTH = 140  # frames narrower than this are enlarged, so that their labels fit
MARGIN, LABEL = 8, 18
BACKGROUND, INK = (24, 24, 24), (235, 235, 235)
COLOURS = ((255, 64, 64), (64, 200, 255), (120, 255, 90), (255, 200, 40), (220, 120, 255))


@dataclass(frozen=True, slots=True)
class Mark:
    """A box or point (in `model_px`) or a time (in seconds) on a medium. colour: number of one of COLOURS."""

    medium: int
    kind: GeometryKind
    values: tuple[float, ...]
    colour: int = 0


def mark_of(
    values: Sequence[float], *, kind: GeometryKind, space: str, medium: int, entry: MediaEntry, colour: int = 0
) -> Mark:
    """The mark of a place that is written in `space`. Raises ConfigError for a space that does not fit the kind."""
    if kind == "time":
        moved = convert_time(values, space, "seconds", duration_s=entry.duration_s or 0.0)
    else:
        convert = convert_box if kind == "box" else convert_point
        moved = convert(values, space, "model_px", source_size=entry.source_size, model_size=entry.model_size)
    return Mark(medium, kind, tuple(moved), colour)


def contact_sheet(media: Sequence[MediaEntry], marks: Sequence[Mark] = ()) -> Image.Image:
    """All frames of all media, one block of rows each, on one picture. There must be a medium."""
    blocks = [
        _block(number, with_pixels(entry), [mark for mark in marks if mark.medium == number])
        for number, entry in enumerate(media)
    ]
    width = max(picture.width for picture in blocks)
    sheet = Image.new("RGB", (width, sum(picture.height for picture in blocks)), BACKGROUND)
    top = 0
    for picture in blocks:
        sheet.paste(picture, (0, top))
        top += picture.height
    return sheet


def _block(number: int, entry: MediaEntry, marks: Sequence[Mark]) -> Image.Image:
    """The frames of one medium in rows of up to COLUMNS, each with its label above."""
    # Of a picture in tiles only the whole one, which is the last: a mark has its place there.
    first = len(entry.frames_F3HW) - 1 if entry.kind == "image" else 0
    cells = [_cell(number, entry, frame, marks) for frame in range(first, len(entry.frames_F3HW))]
    width, height = cells[0].size
    columns = min(COLUMNS, len(cells))
    rows = -(-len(cells) // columns)
    size = (MARGIN + columns * (width + MARGIN), MARGIN + rows * (height + MARGIN))
    picture = Image.new("RGB", size, BACKGROUND)
    for place, one in enumerate(cells):
        row, column = divmod(place, columns)
        picture.paste(one, (MARGIN + column * (width + MARGIN), MARGIN + row * (height + MARGIN)))
    return picture


def _cell(number: int, entry: MediaEntry, frame: int, marks: Sequence[Mark]) -> Image.Image:
    """One frame as the model sees it, enlarged by a whole factor, under its label, with its marks."""
    scale = -(-LEAST_WIDTH // entry.model_size[0])  # rounded up: whole pixels stay whole
    pixels_HW3 = np.ascontiguousarray(entry.frames_F3HW[frame].permute(1, 2, 0).numpy())
    picture = Image.fromarray(pixels_HW3).resize((pixels_HW3.shape[1] * scale, pixels_HW3.shape[0] * scale), 0)
    for mark in marks:
        _draw(picture, mark, entry, frame, scale=scale)
    labelled = Image.new("RGB", (picture.width, picture.height + LABEL), BACKGROUND)
    labelled.paste(picture, (0, LABEL))
    stamp = f"{entry.timestamps_s[frame]:.2f} s" if entry.kind == "video" else "{} x {}".format(*entry.model_size)
    ImageDraw.Draw(labelled).text((1, 2), f"{number}: {stamp}", INK, font=ImageFont.load_default(12))
    return labelled


def _draw(picture: Image.Image, mark: Mark, entry: MediaEntry, frame: int, *, scale: int) -> None:
    """Boxes as outlines, points as circles; a frame inside a span of time gets a frame of its own."""
    draw, colour = ImageDraw.Draw(picture), COLOURS[mark.colour % len(COLOURS)]
    place = [scale * value for value in mark.values]
    if mark.kind == "box":
        draw.rectangle(_corners(place), outline=colour, width=2)
    elif mark.kind == "point":
        draw.circle((place[0], place[1]), radius=5, outline=colour, width=2)
    elif entry.kind == "video" and _is_inside(entry.timestamps_s[frame], mark.values, entry):
        inset = 4 * mark.colour
        corner = (picture.width - 1 - inset, picture.height - 1 - inset)
        draw.rectangle((inset, inset, *corner), outline=colour, width=4)


def _corners(box: Sequence[float]) -> tuple[float, float, float, float]:
    """A box whose corners may be reversed, as a rectangle that can be drawn."""
    x1, y1, x2, y2 = box
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _is_inside(time_s: float, times_s: Sequence[float], entry: MediaEntry) -> bool:
    """Whether a frame lies in the span (or at the moment, to half a frame's distance)."""
    slack = 0.5 / entry.sample_fps if len(times_s) == 1 and entry.sample_fps else 0.0
    return min(times_s) - slack <= time_s <= max(times_s) + slack
