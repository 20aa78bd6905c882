"""Mathematics in texts, read and compared by math-verify within bounds. Pure.

Its own time limits are off: they work by signals, only in a main thread. Towers of powers and factorials too big to be
worked out (`10^{10^{10}}`, `9!!`), deep brackets and long texts are no mathematics here.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import re
from typing import Any

from math_verify import parse, verify

_LONGEST = 2000  # characters of an expression: what is longer takes sympy for ever and was never an answer
# Words parse as products of letters, so `blue` would equal `lube`.
_WORDS = re.compile(r"[A-Za-z]{3,}(?:\s+[A-Za-z]+)*")
# sympy works such numbers out digit by digit: 10^(10^10) has ten billion of them.
_MOST_FACTORIAL, _MOST_EXPONENT = 1000, 10_000.0
_DEEPEST = 10  # brackets inside brackets: at 10 the parser takes a second, at 20 more than a minute
_POWER = r"(?:\^|\*\*)"
_TOWER = re.compile(rf"\d+(?:\.\d+)?(?:{_POWER}[+-]*\d+(?:\.\d+)?)+")
_FACTORIAL = re.compile(r"(\d*)!")


def expressions(text: str) -> tuple[Any, ...]:
    """What math-verify reads, without its fallback to the bare text; none for words and for the too big.

    >>> expressions("0.75")[0], expressions("three quarters")
    (0.750000000000000, ())
    """
    if len(text) > _LONGEST or _WORDS.fullmatch(text.strip()) or _explodes(text):
        return ()
    _quiet()
    found = parse(f"\\boxed{{{text}}}", parsing_timeout=None)  # pyright: ignore[reportArgumentType]
    return tuple(found) if any(not isinstance(part, str) for part in found) else ()


def are_equal(gold: tuple[Any, ...], found: tuple[Any, ...], *, float_rounding: int = 6) -> bool:
    """Whether two texts, by their `expressions`, are the same mathematics; False where either has none.

    float_rounding: decimals to which two inexact numbers must agree.

    >>> are_equal(expressions("\\\\frac{3}{4}"), expressions("0.75"))
    True
    """
    _quiet()
    return bool(gold and found) and bool(
        verify(list(gold), list(found), float_rounding=float_rounding, timeout_seconds=None)
    )


def _explodes(text: str) -> bool:
    """Whether the text holds a power or factorial of more digits than anybody would write out, or deep brackets."""
    steps = ((c in "([{") - (c in ")]}") for c in text)
    if max(itertools.accumulate(steps, lambda depth, step: max(0, depth + step), initial=0)) > _DEEPEST:
        return True
    bare = re.sub(r"\\left|\\right|[{}()\s]", "", text)
    if "!!" in bare or re.search(rf"[!%]{_POWER}|{_POWER}\d+!", bare):
        return True
    if any(int(m[1] or 0) > _MOST_FACTORIAL for m in _FACTORIAL.finditer(bare)):
        return True
    return any(_is_too_high([float(n) for n in re.split(rf"{_POWER}[+-]*", m[0])]) for m in _TOWER.finditer(bare))


def _is_too_high(tower: list[float]) -> bool:
    """Whether an exponent of base ^ (exponent ^ ...) is above the largest that is worked out."""
    value = tower[-1]
    for base in reversed(tower[:-1]):
        if value > _MOST_EXPONENT:
            return True
        value = _MOST_EXPONENT + 1 if base > 1 and value * math.log10(base) > 5 else base**value
    return False


@functools.cache
def _quiet() -> None:
    """Silence the warning that time limits are off; the pool holds them."""
    for name in ("math_verify.parser", "math_verify.grader"):
        logging.getLogger(name).setLevel(logging.ERROR)
