"""Structured text that a model wrote (JSON or a Python literal) and the numbers in it. Pure.

Nothing is evaluated. What is longer than LIMIT characters is not read: no action, path or list of points needs more,
and a parser's time and stack grow with what it is given.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from typing import Any

LIMIT = 20_000

_FENCE = re.compile(r"```(?:json|python)?\s*(.*?)\s*```", re.DOTALL)


def read_literal(text: str) -> Any:
    """The value that the whole text is, alone or in one code fence: JSON, else a Python literal; None where it is none.

    >>> read_literal("[{'action': 'click'}]"), read_literal("(1, 2), (3, 4)"), read_literal("at [1, 2]")
    ([{'action': 'click'}], ((1, 2), (3, 4)), None)
    """
    clean = text.strip()
    if not clean or len(clean) > LIMIT:
        return None
    fenced = _FENCE.fullmatch(clean)
    clean = fenced[1] if fenced else clean
    try:
        return json.loads(clean)
    except (ValueError, RecursionError):
        return _python_literal(clean)


def _python_literal(text: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def is_number(value: Any) -> bool:
    """Whether it is an integer or a finite float. NaN is how tables store a number that is missing.

    >>> is_number(3), is_number(float("nan")), is_number(True)
    (True, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) != math.inf and value == value


def as_number(value: Any) -> float | None:
    """A finite number as float; None for anything else, a boolean or an integer too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_numbers(value: Any, *, count: int | None = None) -> tuple[float, ...] | None:
    """A list of finite numbers (of `count`, if given); None for anything else.

    >>> as_numbers([1, 2.5]), as_numbers([1, "2"]), as_numbers([1, 2, 3], count=2)
    ((1.0, 2.5), None, None)
    """
    if not isinstance(value, list | tuple) or (count is not None and len(value) != count):
        return None
    numbers = tuple(as_number(v) for v in value)
    return None if None in numbers else numbers  # pyright: ignore[reportReturnType]
