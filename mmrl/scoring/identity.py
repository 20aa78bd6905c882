"""Whether two expressions are equal wherever both are defined, by their values at random points. Pure.

Simplifying an expression has no bound on time; evaluating it does. Both are evaluated with 40 and with 60 digits at 24
points that depend on nothing but the symbols' assumptions. Two analytic expressions that differ agree at such points
with probability 0, so this decides all but what is built to differ outside the points' range (0.1 to 10, of either
sign): that is the one thing a proof would add. A tiny difference that changes with more digits is rounding.

>>> from mmrl.scoring.expression import parse_expression
>>> points = sample_points({"x": "real"})
>>> first, second = (values(parse_expression(t), points) for t in ("sin(x)^2", "1 - cos(x)^2"))
>>> are_equal(first, second), are_equal(first, values(parse_expression("sin(x)"), points))
(True, False)
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from mpmath.ctx_mp import MPContext

from mmrl.scoring.expression import Tree

Assumption = Literal["real", "positive", "negative", "integer", "positive integer"]
Point = Mapping[str, float]
Values = list[tuple[Any, Any] | None]
"""One entry a point: the value with 40 and with 60 digits; None where there is none."""

POINTS, DIGITS = 24, (40, 60)
_SAME = 1e-35  # relative difference of two exact expressions that counts as none
_ROUNDING = 1e-20
_MOST_BITS = 20_000  # of the exponent of a value: what is larger or smaller is not evaluated
_FEWEST = 0.5  # share of the gold's points at which a prediction must have a value

_ALIASES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "abs": "fabs", "log": "ln"}
_local = threading.local()
_GROWING = ("exp", "sinh", "cosh", "tanh")


def sample_points(assumptions: Mapping[str, str]) -> list[Point]:
    """Values for the symbols: 0.1 to 10 in logarithm, of either sign unless assumed; integers 1 to 12.

    One point where there is no symbol. ValueError for an assumption that is none of Assumption.
    """
    rng = random.Random(f"points of {sorted(assumptions)}")
    count = POINTS if assumptions else 1
    return [{name: _drawn(rng, kind) for name, kind in sorted(assumptions.items())} for _ in range(count)]


def _drawn(rng: random.Random, assumption: str) -> float:
    size = math.exp(rng.uniform(math.log(0.1), math.log(10)))
    whole, sign = float(rng.randint(1, 12)), rng.choice((1, -1))
    table = {
        "real": sign * size,
        "positive": size,
        "negative": -size,
        "integer": sign * whole,
        "positive integer": whole,
    }
    if assumption not in table:
        raise ValueError(f"{assumption!r} is none of the assumptions {', '.join(table)}")
    return table[assumption]


def values(tree: Tree, points: Sequence[Point]) -> Values:
    """The values of an expression. KeyError for a symbol that has none in the points."""
    contexts = _contexts()
    return [_at(tree, point, contexts) for point in points]


def _contexts() -> tuple[Any, ...]:
    """This thread's own, for a context holds its precision as state."""
    if not hasattr(_local, "contexts"):
        _local.contexts = tuple(MPContext() for _ in DIGITS)
        for context, digits in zip(_local.contexts, DIGITS, strict=True):
            context.dps = digits
    return _local.contexts


def _at(tree: Tree, point: Point, contexts: Sequence[Any]) -> tuple[Any, Any] | None:
    try:
        coarse, fine = (_value(tree, point, context) for context in contexts)
    except (ArithmeticError, ValueError, TypeError):
        return None  # a pole, or too large
    return coarse, fine


def _value(tree: Tree, point: Point, context: Any) -> Any:
    if tree.kind == "number":
        return _sized(context.mpf(tree.name), context)
    if tree.kind == "symbol":
        return context.mpf(point[tree.name])
    if tree.kind == "constant":
        return {"pi": +context.pi, "e": +context.e, "i": context.j}[tree.name] if tree.name != "oo" else _undefined()
    parts = [_value(part, point, context) for part in tree.parts]
    if tree.kind == "call":
        return _sized(_applied(tree.name, parts[0], context), context)
    if tree.kind == "^":
        return _sized(_raised(parts[0], parts[1], context), context)
    return _sized(_OPERATORS[tree.kind](*parts), context)


def _undefined() -> Any:
    raise ValueError("infinity has no value")


_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "neg": lambda a: -a,
}


def _sized(value: Any, context: Any) -> Any:
    """The value itself; OverflowError where it is not finite, or its exponent is out of range."""
    if not context.isfinite(value) or (value and abs(context.mag(value)) > _MOST_BITS):
        raise OverflowError("out of range")
    return value


def _applied(name: str, argument: Any, context: Any) -> Any:
    bits = context.mag(argument) if argument else 0
    if bits > (14 if name in _GROWING else 2000):
        raise OverflowError("out of range")
    return getattr(context, _ALIASES.get(name, name))(argument)


def _raised(base: Any, exponent: Any, context: Any) -> Any:
    bits = abs(context.mag(base)) if base else 1
    if abs(exponent) * max(bits, 1) > _MOST_BITS:
        raise OverflowError("out of range")
    return base**exponent


def are_equal(found: Values, gold: Values, *, rel_tol: float = 0.0) -> bool:
    """Whether the values agree at every point where both exist; False where these are too few.

    rel_tol: relative difference that counts as none, for numbers written as decimals; 0: of exact ones.
    """
    both = [(f, g) for f, g in zip(found, gold, strict=True) if f is not None and g is not None]
    known = sum(g is not None for g in gold)
    if not known or len(both) < _FEWEST * known:
        return False
    return all(_agree(f, g, max(rel_tol, _SAME)) for f, g in both)


def _agree(found: tuple[Any, Any], gold: tuple[Any, Any], tolerance: float) -> bool:
    coarse, fine = abs(found[0] - gold[0]), abs(found[1] - gold[1])
    size = max(abs(found[1]), abs(gold[1]))
    if fine <= tolerance * size:
        return True
    # A small difference that more digits change is rounding, as that of sin(x)^2 + cos(x)^2 - 1 and 0.
    return max(coarse, fine) < _ROUNDING and abs(coarse - fine) > 0.1 * max(coarse, fine)


def are_proportional(found: Values, gold: Values, *, rel_tol: float = 0.0) -> bool:
    """Whether the values have one ratio other than 0 at every point: two equations `found = 0` and `gold = 0` agree."""
    ratios = [(f[0] / g[0], f[1] / g[1]) for f, g in zip(found, gold, strict=True) if f and g and g[0] and g[1]]
    known = sum(g is not None and bool(g[1]) for g in gold)
    if not ratios or len(ratios) < _FEWEST * known or not ratios[0][1]:
        return False
    return are_equal(list(ratios), [ratios[0]] * len(ratios), rel_tol=rel_tol)
