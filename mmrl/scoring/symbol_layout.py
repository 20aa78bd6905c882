"""Formulas as what is drawn: symbols and lines with their places, and when two such drawings are alike. Pure.

Pixels are those of a formula set at 24 px, as in olmOCR (an em is 29.04 px); y grows downwards from the baseline.

Shapes: N symbols; 4 directions up, down, left, right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

ALIGNED_PX = 5.0
"""How far apart the centres of symbols of one row or column may be: olmOCR's."""

FULL_PX = 29
"""The size of symbols that are no scripts."""

_MOST_TRIES = 20_000


@dataclass(frozen=True, slots=True)
class Symbol:
    """A character, or a line or stretched sign (`is_mark`; its text is then its shape).

    font: family, weight and style. size: of the font, in whole pixels. x, y: centre. width: pixels.
    is_accent: a character over others. is_hidden: takes place and is not drawn (phantoms).
    """

    text: str
    font: str
    size: int
    x: float
    y: float
    width: float
    is_mark: bool = False
    is_accent: bool = False
    is_hidden: bool = False


Layout = tuple[Symbol, ...]


def drawn_alike(found: Layout, wanted: Layout) -> bool:
    """Whether two formulas show the same signs in the same order, each at its height and beside the same neighbours.

    Fonts and sizes count too. Heights are those above the first symbol of full size, else above the baseline, and may
    differ by ALIGNED_PX; distances in a row do not count. Lines, stretched signs and accents must stand over the same
    characters. What is not drawn does not count.
    """
    found, wanted = _visible(found), _visible(wanted)
    if not wanted or len(found) != len(wanted):
        return False
    first = next((i for i, symbol in enumerate(wanted) if symbol.size == FULL_PX and not symbol.is_mark), None)
    lower = 0.0 if first is None else found[first].y - wanted[first].y
    same = all(
        (f.text, f.font, f.size, f.is_mark) == (w.text, w.font, w.size, w.is_mark)
        and abs(f.y - lower - w.y) <= ALIGNED_PX
        for f, w in zip(found, wanted, strict=True)
    )
    return same and bool((_structure(found) == _structure(wanted)).all())


def holds(found: Layout, wanted: Layout) -> bool:
    """olmOCR's rule: each character of the wanted formula has one of its own, equal to it, in the found one.

    A character's nearest neighbours must be those of its partner; what stands beside the partner alone does not count.
    Fonts, heights, lines and stretched signs do not count; what is not drawn does.
    """
    found, wanted = _characters(found), _characters(wanted)
    if not wanted or len(wanted) > len(found):
        return False
    search = _Partners(found, wanted)
    open_choices = [search.choices({})]
    while open_choices:
        partners = next(open_choices[-1], None)
        if partners is None:
            open_choices.pop()
        elif len(partners) == len(wanted):
            return True
        else:
            open_choices.append(search.choices(partners))
    return False


class _Partners:
    """Which character of `found` each of `wanted` may have as its partner: a search that gives up after _MOST_TRIES."""

    def __init__(self, found: Layout, wanted: Layout) -> None:
        self._wanted, self._texts = [s.text for s in wanted], [s.text for s in found]
        self._beside, self._places = _neighbours(wanted), _neighbours(found)
        self._tries = itertools.count()

    def choices(self, partners: dict[int, int]) -> Iterator[dict[int, int]]:
        """The partners with one more for the first character that has none, and all that follows from it."""
        this = next(i for i in range(len(self._wanted)) if i not in partners)
        for other, text in enumerate(self._texts):
            if text == self._wanted[this]:
                if next(self._tries) >= _MOST_TRIES:
                    return
                if (more := self._grown(partners, this, other)) is not None:
                    yield more

    def _grown(self, partners: dict[int, int], first: int, partner: int) -> dict[int, int] | None:
        """With all that follows from one more partner by neighbours; None where that cannot be."""
        more, taken, todo = dict(partners), set(partners.values()), [(first, partner)]
        while todo:
            this, other = todo.pop()
            if other < 0 or more.get(this, other) != other or self._texts[other] != self._wanted[this]:
                return None
            if this not in more:
                if other in taken:
                    return None
                more[this] = other
                taken.add(other)
                todo += [(n, self._places[other][d]) for d, n in enumerate(self._beside[this]) if n >= 0]
        return more


def _visible(layout: Layout) -> Layout:
    return tuple(symbol for symbol in layout if not symbol.is_hidden)


def _characters(layout: Layout) -> Layout:
    return tuple(symbol for symbol in layout if not symbol.is_mark)


def _structure(layout: Layout) -> np.ndarray:
    """(N, 4 + N): each character's neighbours, and the characters that a mark or accent stands over or under."""
    characters = [i for i, symbol in enumerate(layout) if not symbol.is_mark]
    beside = np.full((len(layout), 4), -1)
    if characters:
        beside[characters] = _neighbours([layout[i] for i in characters])
    x_N, width_N = (np.array([getattr(s, name) for s in layout]) for name in ("x", "width"))
    covers_N = np.array([s.is_mark or s.is_accent for s in layout])
    covers_NN = (abs(x_N[None] - x_N[:, None]) < width_N[:, None] / 2) & covers_N[:, None] & ~covers_N[None]
    return np.concatenate([beside, covers_NN], axis=1)


def _neighbours(layout: Sequence[Symbol]) -> list[list[int]]:
    """Of each the index of the nearest above, below, left and right, at most ALIGNED_PX off the line; else -1."""
    x_N, y_N = (np.array([getattr(symbol, name) for symbol in layout]) for name in ("x", "y"))
    across_NN, down_NN = x_N[None] - x_N[:, None], y_N[None] - y_N[:, None]
    found = []
    for along_NN, off_NN in ((-down_NN, across_NN), (down_NN, across_NN), (-across_NN, down_NN), (across_NN, down_NN)):
        distance_NN = np.where((along_NN > 0) & (abs(off_NN) <= ALIGNED_PX), along_NN, np.inf)
        nearest_N = distance_NN.argmin(axis=1)
        found.append(np.where(np.isfinite(distance_NN.min(axis=1)), nearest_N, -1))
    return np.stack(found, axis=1).tolist()
