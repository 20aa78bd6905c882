"""Scores of very many answers, some tens of bytes each, by (question, number of the answer)."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """An answer's score, NaN where it could not be scored, and its parts by name.

    is_unread: it held nothing that its reward could read.
    """

    value: float
    parts: Mapping[str, float]
    is_unread: bool = False


class KeptScores(Mapping[tuple[str, int], Score]):
    """A mapping that keeps numbers in arrays and makes a Score when one is asked for.

    An answer has a row; a row says which names its parts have, and where the first of their values is.

    >>> kept = KeptScores()
    >>> kept["q-1", 0] = Score(0.5, {"box_iou": 0.5})
    >>> kept["q-1", 0]
    Score(value=0.5, parts={'box_iou': 0.5}, is_unread=False)
    """

    def __init__(self) -> None:
        self._first_rows: dict[str, int] = {}  # of first answers, most often all there are
        self._other_rows: dict[tuple[str, int], int] = {}
        self._values, self._unread = array("d"), bytearray()
        self._part_values, self._first_part, self._names = array("d"), array("Q"), array("I")
        self._known_names: dict[tuple[str, ...], int] = {}
        self._names_by_number: list[tuple[str, ...]] = []

    def __setitem__(self, place: tuple[str, int], score: Score) -> None:
        key, number = place
        if number == 0:
            self._first_rows[key] = len(self._values)
        else:
            self._other_rows[place] = len(self._values)
        self._values.append(score.value)
        self._unread.append(score.is_unread)
        self._first_part.append(len(self._part_values))
        self._part_values.extend(score.parts.values())
        self._names.append(self._number_of(tuple(score.parts)))

    def __getitem__(self, place: tuple[str, int]) -> Score:
        row = self._other_rows[place] if place[1] else self._first_rows[place[0]]
        names, first = self._names_by_number[self._names[row]], self._first_part[row]
        parts = dict(zip(names, self._part_values[first : first + len(names)], strict=True))
        return Score(self._values[row], parts, bool(self._unread[row]))

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return itertools.chain(((key, 0) for key in self._first_rows), self._other_rows)

    def __len__(self) -> int:
        return len(self._first_rows) + len(self._other_rows)

    def _number_of(self, names: tuple[str, ...]) -> int:
        if names not in self._known_names:
            self._known_names[names] = len(self._names_by_number)
            self._names_by_number.append(names)
        return self._known_names[names]
