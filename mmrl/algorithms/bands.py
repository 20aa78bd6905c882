"""Rows sorted into bands and drawn from them, at a cost that does not depend on how many rows there are.

A band is a list whose first part holds the rows that were not drawn in the present pass over it, so that each comes
once before any comes again, however rows move between bands. 9 bytes a row.
"""

from __future__ import annotations

import base64
import random
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

NONE = 255


class Bands:
    """band_R: the band of each row from 0, or NONE.

    >>> bands = Bands(np.array([0, 1, 1, NONE]), count=2)
    >>> bands.sizes, sorted(bands.draw(1, random.Random(0)) for _ in range(2))
    ([1, 2], [1, 2])
    """

    def __init__(self, band_R: np.ndarray, *, count: int) -> None:
        self._band = bytearray(band_R.astype(np.uint8).tobytes())
        place_R = np.zeros(len(band_R), dtype=np.int32)
        self._members: list[array[int]] = []
        for band in range(count):
            rows = np.flatnonzero(band_R == band).astype(np.int32)
            place_R[rows] = np.arange(len(rows))
            self._members.append(_ints(rows.tobytes()))
        self._place = _ints(place_R.tobytes())
        self._left = [len(members) for members in self._members]

    @property
    def sizes(self) -> list[int]:
        """Rows in each band."""
        return [len(members) for members in self._members]

    def band_of(self, row: int) -> int:
        return self._band[row]

    def draw(self, band: int, chance: random.Random) -> int:
        """A row of a band that is not empty."""
        members = self._members[band]
        if not self._left[band]:
            self._left[band] = len(members)
        self._left[band] -= 1
        last = self._left[band]
        self._swap(members, chance.randrange(last + 1), last)
        return members[last]

    def move(self, row: int, band: int) -> None:
        """Put a row into another band, where it counts as drawn already."""
        before = self._band[row]
        if before == band:
            return
        if before != NONE:
            self._take_out(row, before)
        self._band[row] = band
        if band != NONE:
            self._place[row] = len(self._members[band])
            self._members[band].append(row)

    def state_dict(self) -> dict[str, Any]:
        """Members by band, in order, as the bytes of 32-bit numbers, and how many of each are still to be drawn."""
        members = [base64.b64encode(of_band.tobytes()).decode() for of_band in self._members]
        return {"members": members, "left": list(self._left)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._band = bytearray([NONE]) * len(self._band)
        self._members = [_ints(base64.b64decode(text)) for text in state["members"]]
        self._left = list(state["left"])
        for band, members in enumerate(self._members):
            for place, row in enumerate(members):
                self._band[row], self._place[row] = band, place

    def _take_out(self, row: int, band: int) -> None:
        members, place = self._members[band], self._place[row]
        if place < self._left[band]:
            self._left[band] -= 1
            self._swap(members, place, self._left[band])
            place = self._left[band]
        self._swap(members, place, len(members) - 1)
        members.pop()

    def _swap(self, members: array[int], a: int, b: int) -> None:
        members[a], members[b] = members[b], members[a]
        self._place[members[a]], self._place[members[b]] = a, b


def distinct(draw_one: Callable[[], int], count: int, *, tries: int = 8) -> list[int]:
    """`count` rows by a function that draws one, none of them twice while other ones are found within `tries`."""
    chosen: dict[int, None] = {}
    repeated: list[int] = []
    while len(chosen) + len(repeated) < count:
        drawn = (draw_one() for _ in range(tries))
        row = next((row for row in drawn if row not in chosen), None)
        if row is None:
            repeated.append(draw_one())
        else:
            chosen[row] = None
    return [*chosen, *repeated]


def shares_of(weights: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """Odds of bands with 0 for empty ones; all 0 where none has a row with a weight."""
    return [weight if size else 0.0 for weight, size in zip(weights, sizes, strict=True)]


def _ints(raw: bytes) -> array[int]:
    numbers = array("i")
    numbers.frombytes(raw)
    return numbers
