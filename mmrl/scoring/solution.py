"""Symbolic solutions: an expression, an equation, a set, a tuple, a matrix, intervals; read, and compared. Pure.

>>> points = sample_points({"x": "real"})
>>> gold = read_solution("{1, 2x}", "set", symbols={"x"})
>>> same_solution(read_solution("x + x, 2/2", "set", symbols={"x"}), gold, points)
True
>>> [guess_form(t) for t in ("(0, 1]", "x^2 = 4", "[[1, 0], [0, 1]]", "(1, 2)", "2x", "[0, 1]")]
['interval', 'equation', 'matrix', 'tuple', 'expression', None]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from mmrl.scoring.expression import LONGEST, NotReadError, Tree, parse_expression, plain
from mmrl.scoring.identity import Point, Values, are_equal, are_proportional, sample_points, values  # noqa: F401 - the example

Form = Literal["expression", "equation", "set", "tuple", "matrix", "interval"]

_LATEX_MATRIX = re.compile(r"\\begin\{([pbvB]?matrix)\}(.*)\\end\{\1\}", re.DOTALL)
_HEAD = re.compile(r"\\?([A-Za-z]+(?:_(?:\{\w{1,12}\}|\w{1,12}))?)\s*(\([\sA-Za-z,]{1,20}\))?\s*=(.*)", re.DOTALL)
_UNION = re.compile(r"∪|\\cup(?![A-Za-z])|\s(?:U|or)\s")
_EMPTY = ("∅", r"\emptyset", r"\varnothing", "{}", r"\{\}")


@dataclass(frozen=True, slots=True)
class Entry:
    """An expression (one side) or an equation (two). head: name of what it is said to be, as y in `y(x) = 2x`.

    symbol: the head as an expression, where it is no function.
    """

    sides: tuple[Tree, ...]
    head: str = ""
    symbol: Tree | None = None

    @property
    def trees(self) -> tuple[Tree, ...]:
        return self.sides if self.symbol is None else (*self.sides, self.symbol)

    def difference(self) -> Tree | None:
        """What the equation sets to 0; None for an expression."""
        sides = self.sides if self.symbol is None else (self.symbol, self.sides[0])
        return Tree("-", parts=sides) if len(sides) == 2 else None


@dataclass(frozen=True, slots=True)
class Solution:
    """rows: of a matrix its rows, of intervals their two ends, else one row. brackets: of each interval, as `[)`."""

    form: Form
    rows: tuple[tuple[Entry, ...], ...]
    brackets: tuple[str, ...] = ()

    @property
    def trees(self) -> list[Tree]:
        return [tree for row in self.rows for entry in row for tree in entry.trees]

    def symbols(self) -> set[str]:
        return set().union(*(tree.symbols() for tree in self.trees))


def guess_form(text: str) -> Form | None:
    """The form of a text; None for `[a, b]`, which may be an interval or a list."""
    bare = plain(text) if _LATEX_MATRIX.search(text) is None else "[["
    if re.match(r"\[\s*\[", bare):
        return "matrix"
    if bare in _EMPTY or _inside(bare, ("{}", r"\{\}")) is not None:
        return "set"
    ends = bare[:1] + bare[-1:]
    if _UNION.search(bare) or ends in ("[)", "(]"):
        return "interval"
    if ends == "[]":
        return None
    inside = _inside(bare, ("()",))
    if inside is not None and len(_split(inside)) > 1:
        return "tuple"
    if len(_split(bare)) > 1:
        return "set"
    return "equation" if "=" in bare else "expression"


def read_solution(text: str, form: Form, *, symbols: Collection[str] | None = None) -> Solution:
    """The solution that the whole text is. NotReadError for anything else; symbols as in `parse_expression`."""
    if len(text) > LONGEST:
        raise NotReadError(f"it has more than {LONGEST} characters")
    if form == "matrix":
        return Solution(form, _matrix(text, symbols))
    bare = plain(text)
    if form == "interval":
        return _intervals(bare, symbols)
    if form in ("expression", "equation"):
        return Solution(form, ((_entry(bare, symbols),),))
    if bare in _EMPTY:
        return Solution(form, ((),))
    wraps = (r"\{\}", "{}") if form == "set" else ("()", "[]")
    inside = _inside(bare, wraps)
    return Solution(form, (tuple(_entry(part, symbols) for part in _split(bare if inside is None else inside)),))


def _inside(text: str, wraps: Sequence[str]) -> str | None:
    """What stands between brackets that wrap the whole text; None where they do not."""
    for wrap in wraps:
        first, last = wrap[: len(wrap) // 2], wrap[len(wrap) // 2 :]
        if text.startswith(first) and text.endswith(last) and len(text) >= len(wrap):
            inside = text[len(first) : -len(last)]
            if _is_balanced(inside):
                return inside.strip()
    return None


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if depth < 0:
            return False
    return depth == 0


def _split(text: str) -> list[str]:
    """The parts between commas and semicolons outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character in ",;" and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _entry(text: str, symbols: Collection[str] | None) -> Entry:
    match = _HEAD.fullmatch(text.strip())
    if match is not None and "=" not in match[3]:
        head = re.sub(r"[{}]", "", match[1])
        known = not match[2] and (symbols is None or head in symbols)
        symbol = parse_expression(match[1], symbols=symbols) if known else None
        return Entry(
            (parse_expression(match[3], symbols=symbols),), head, symbol if symbol and not symbol.parts else None
        )
    sides = text.split("=")
    if len(sides) > 2:
        raise NotReadError("it has more than one =")
    return Entry(tuple(parse_expression(side, symbols=symbols) for side in sides))


def _matrix(text: str, symbols: Collection[str] | None) -> tuple[tuple[Entry, ...], ...]:
    latex = _LATEX_MATRIX.search(text)
    if latex is not None:
        lines = [line for line in re.split(r"\\\\", latex[2]) if line.strip()]
        cells = [line.split("&") for line in lines]
    else:
        inside = _inside(plain(text), ("[]",))
        rows = [_inside(row.strip(), ("[]",)) for row in _split(inside or "")]
        cells = [_split(row) for row in rows if row is not None]
        if len(cells) != len(rows):
            raise NotReadError("a row of the matrix is not in brackets")
    if not cells or len({len(row) for row in cells}) != 1:
        raise NotReadError("the rows of the matrix differ in length")
    return tuple(tuple(_entry(cell, symbols) for cell in row) for row in cells)


def _intervals(text: str, symbols: Collection[str] | None) -> Solution:
    rows, brackets = [], []
    for part in (p.strip() for p in _UNION.split(text)):
        ends = _split(part[1:-1])
        if part[:1] not in ("(", "[") or part[-1:] not in (")", "]") or len(ends) != 2:
            raise NotReadError(f"{part[:40]!r} is no interval")
        rows.append(tuple(_entry(end, symbols) for end in ends))
        brackets.append(part[0] + part[-1])
    return Solution("interval", tuple(rows), tuple(brackets))


Known = dict[int, tuple[Tree, Values]]
"""Values of trees by their id; the tree is kept beside them, so that its id stays its own."""


def values_of(solution: Solution, points: Sequence[Point]) -> Known:
    """The values of a solution's expressions, to be worked out once where many are compared with it."""
    return {id(tree): (tree, values(tree, points)) for tree in solution.trees}


def same_solution(
    found: Solution, gold: Solution, points: Sequence[Point], *, rel_tol: float = 1e-3, known: Known | None = None
) -> bool:
    """Whether both say the same at the points: sets and unions in any order, the rest part by part.

    Equations agree when their sides' differences are proportional. rel_tol: counts where a number is written as a
    decimal; exact expressions agree exactly. known: values of the gold's expressions at these points.
    """
    if found.form != gold.form:
        return False
    is_exact = all(tree.is_exact() for tree in (*found.trees, *gold.trees))
    judge = _Comparison(points, 0.0 if is_exact else rel_tol, known or {})
    if gold.form == "set":
        return judge.are_same_sets(found.rows[0], gold.rows[0])
    if gold.form == "interval":
        return judge.are_same_unions(found, gold)
    return [len(r) for r in found.rows] == [len(r) for r in gold.rows] and all(
        judge.same(f, g) for fs, gs in zip(found.rows, gold.rows, strict=True) for f, g in zip(fs, gs, strict=True)
    )


class _Comparison:
    """Entries compared at fixed points; every expression is evaluated once."""

    def __init__(self, points: Sequence[Point], rel_tol: float, known: Known) -> None:
        self._points, self._rel_tol = points, rel_tol
        self._known = dict(known)

    def _values(self, tree: Tree) -> Values:
        if id(tree) not in self._known:
            self._known[id(tree)] = (tree, values(tree, self._points))
        return self._known[id(tree)][1]

    def same(self, found: Entry, gold: Entry) -> bool:
        if found.head and gold.head and len(found.sides) == len(gold.sides) == 1 and found.head != gold.head:
            return False
        if len(found.sides) == len(gold.sides) == 1:
            if any(tree.name == "oo" for side in (*found.sides, *gold.sides) for tree in side.walk()):
                return str(found.sides[0]) == str(gold.sides[0])
            return are_equal(self._values(found.sides[0]), self._values(gold.sides[0]), rel_tol=self._rel_tol)
        ours, theirs = found.difference(), gold.difference()
        if ours is None or theirs is None:
            return False
        return are_proportional(values(ours, self._points), values(theirs, self._points), rel_tol=self._rel_tol)

    def are_same_sets(self, found: Sequence[Entry], gold: Sequence[Entry]) -> bool:
        """Each entry of either has its equal in the other; a repeated one counts once."""
        return all(any(self.same(f, g) for g in gold) for f in found) and all(
            any(self.same(f, g) for f in found) for g in gold
        )

    def are_same_unions(self, found: Solution, gold: Solution) -> bool:
        if len(found.rows) != len(gold.rows):
            return False
        return all(
            any(
                kind == wanted and all(self.same(f, g) for f, g in zip(row, ends, strict=True))
                for row, kind in zip(found.rows, found.brackets, strict=True)
            )
            for ends, wanted in zip(gold.rows, gold.brackets, strict=True)
        )
