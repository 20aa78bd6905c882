"""Lists that a reward returns beside its numbers: columns that plug-ins of an algorithm read.

    steps   [0.9, 0.4, 0.7]                    a number for each step, turn or test, in order
    spans   [[0, 12, 0.9], [12, 40, 0.4]]      values of stretches of the completion: start, end (exclusive), value

Starts and ends count characters of the completion as the reward was given it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

Span = tuple[float, float, float]
Column = tuple[float, ...] | tuple[Span, ...]


def is_list(value: Any) -> bool:
    """Whether a value of a reward's dict is meant as a column."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def read_column(values: Sequence[Any]) -> Column:
    """A list as a column. Raises ValueError where it is neither steps nor spans.

    >>> read_column([1, 0.5]), read_column([[0, 3, 1]])
    ((1.0, 0.5), ((0.0, 3.0, 1.0),))
    """
    if all(_is_number(value) for value in values):
        return tuple(float(value) for value in values)
    if all(is_list(value) and len(value) == 3 and all(map(_is_number, value)) for value in values):
        spans: list[Span] = [(float(start), float(end), float(value)) for start, end, value in values]
        if all(0 <= start <= end for start, end, _ in spans):
            return tuple(spans)
    raise ValueError("is neither a list of numbers nor one of [start, end, value] with 0 <= start <= end")


def is_spans(column: Column) -> bool:
    """Whether a column's entries are spans; a column without entries is neither kind."""
    return bool(column) and isinstance(column[0], tuple)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
