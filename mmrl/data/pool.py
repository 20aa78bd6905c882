"""The rows of a stage as a `draw` hook sees them: numbers from 0, with what is known of each without drawing it.

What a hook asks for is read once, in a pass over all rows: 8 bytes a row for a column of numbers, 2 for labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmrl.data.readers import SampleSet
from mmrl.data.sample import Sample
from mmrl.errors import DataError, type_words

_REMEMBERED = 2**17  # rows handed out lately; a step has far fewer


@dataclass(frozen=True, eq=False)
class Labels:
    """A text per row: names[code_R[row]]."""

    names: tuple[str, ...]
    code_R: np.ndarray


class Pool:
    """Rows to draw from. own_order: the next rows as the loader orders them, which it counts as taken.

    progress: the share of the stage's steps that are done.
    """

    def __init__(self, rows: SampleSet, own_order: Callable[[int], list[int]]) -> None:
        self.rows, self.own_order, self.progress = rows, own_order, 0.0
        self._row_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> np.ndarray:
        """A number per row, float64, NaN where it is null. DataError where it is no number, or no row has one."""
        values_R = np.full(len(self), np.nan)
        for row in range(len(self)):
            sample = self.rows[row]
            value = sample.columns.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float | None):
                raise DataError(f"{sample.where}: column {name!r} is {type_words(value)}; it must be a number or null")
            values_R[row] = np.nan if value is None else value
        if np.isnan(values_R).all():
            raise DataError(f"no training row has a number in the column {name!r}, which a plug-in draws by")
        return values_R

    def labels(self, column: str | None = None) -> Labels:
        """The text in a column of each row; None: its task."""
        if column is None:
            return Labels(*self.rows.task_codes())
        codes: dict[str, int] = {}
        numbers = [codes.setdefault(_text(self.rows[row], column), len(codes)) for row in range(len(self))]
        return Labels(tuple(codes), np.array(numbers, dtype=np.int16))

    def row_of(self, prompt_id: str) -> int | None:
        """The row of a prompt that was drawn lately; None for one that was not."""
        return self._row_of.get(prompt_id)

    def read(self, rows: Sequence[int]) -> list[Sample]:
        """The rows as samples, from now on known by their prompt ids."""
        samples = [self.rows[row] for row in rows]
        for row, sample in zip(rows, samples, strict=True):
            self._row_of[sample.prompt_id] = row
        while len(self._row_of) > _REMEMBERED:
            del self._row_of[next(iter(self._row_of))]
        return samples


def _text(sample: Sample, column: str) -> str:
    value: Any = sample.columns.get(column)
    if not isinstance(value, str):
        raise DataError(f"{sample.where}: column {column!r} is {type_words(value)}; a plug-in draws by the text in it")
    return value
