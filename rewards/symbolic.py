"""A symbolic solution: an expression, an equation, a set, a tuple, a matrix or intervals, with units if need be.

Formula: 1 if the solution equals the answer for all values of its symbols, else 0. Equality is decided by their values
with 40 and 60 digits at 24 points of the symbols' domain (`mmrl.scoring.identity`); sets and unions in any order;
equations by the ratio of their sides' differences.
Bounds: 0 to 1.
Answer: plain or LaTeX, at most 800 characters: `5PL/16`, `\\frac{5}{16} P L`, `y(x) = ...`, `{1, 2}`, `[0, 1)`,
`\\begin{pmatrix}..`. It may hold the answer's symbols only. `a/b c` is (a/b) c. Numbers with a decimal point agree
within rel_tol. The row may have the columns `symbols` (each one's assumption: real, positive, negative, integer,
positive integer; default real), `form` (default: that of the answer) and `unit` (then the unit may be left out, or be
any of the same kind).
Space: none.
Unit: as the row says.
Source: BeamPERL's comparison of beam formulas. Nothing of a model is evaluated by Python or simplified by sympy, whose
parser uses eval and whose simplification has no bound on time: the text is read by a grammar of our own.
Example: answer `P L / 4`: `\\frac{LP}{4}` 1, `0.25 P L` 1, `P L / 3` 0; answer `5` with unit kN*m: `5000 N m` 1.
"""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.expression import LONGEST, NotReadError, Tree, plain
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.identity import Point, sample_points
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.solution import (
    Entry,
    Form,
    Known,
    Solution,
    guess_form,
    read_solution,
    same_solution,
    values_of,
)
from mmrl.scoring.units import Unit, unit_of

BOUNDS = (0.0, 1.0)


@dataclass(frozen=True)
class Gold:
    """The row's solution, the names that may occur in it, the points at which it is compared, its values there, and
    its unit.
    """

    solution: Solution
    symbols: frozenset[str]
    points: list[Point]
    known: Known
    unit: Unit | None


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", rel_tol: float = 1e-3) -> float:
    """`rel_tol`: relative difference of numbers written as decimals that counts as none."""
    gold = _gold(sample)
    prediction = extract_prediction(completion, answer=answer)
    if prediction is None or len(prediction) > LONGEST:
        return 0.0
    for found in _readings(prediction, gold):
        if same_solution(found, gold.solution, gold.points, rel_tol=rel_tol, known=gold.known):
            return 1.0
    return 0.0


def _gold(sample: Sample) -> Gold:
    text = gold_text(sample)
    declared, form, unit = (sample.columns.get(key) for key in ("symbols", "form", "unit"))
    form = form or guess_form(text)
    if form not in get_args(Form):
        raise RewardError(f"{sample.where}: the column `form` must be one of {', '.join(get_args(Form))}, not {form!r}")
    assumptions = _assumptions(declared, sample)
    try:
        gold = _read_gold(text, form, tuple(sorted(assumptions.items())), _unit(unit, form, sample))
    except ValueError as error:
        raise RewardError(f"{sample.where}: the answer {text!r} cannot be compared: {error}") from error
    if form != "interval" and any(all(v is None for v in found) for _, found in gold.known.values()):
        raise bad_answer(sample, wanted="a solution with a value at any of the points tried; see the column `symbols`")
    return gold


@functools.lru_cache(maxsize=256)  # a group's completions share their answer
def _read_gold(text: str, form: Form, declared: tuple[tuple[str, str], ...], unit: Unit | None) -> Gold:
    solution = read_solution(text, form, symbols=dict(declared) if declared else None)
    assumptions = dict(declared) or dict.fromkeys(solution.symbols(), "real")
    points = sample_points(assumptions)
    return Gold(solution, frozenset(assumptions), points, values_of(solution, points), unit)


def _assumptions(declared: Any, sample: Sample) -> dict[str, str]:
    if declared is None:
        return {}
    if not isinstance(declared, dict) or not all(isinstance(v, str) for v in declared.values()):
        raise RewardError(f"{sample.where}: the column `symbols` must map names to assumptions, not {declared!r}")
    return {name: kind for name, kind in declared.items() if kind is not None}


def _unit(text: Any, form: Form, sample: Sample) -> Unit | None:
    if text is None:
        return None
    unit = unit_of(text) if isinstance(text, str) and form in ("expression", "equation") else None
    if unit is None:
        raise RewardError(f"{sample.where}: the column `unit`, {text!r}, is no unit of an expression")
    return unit


def _readings(text: str, gold: Gold) -> Iterator[Solution]:
    """The prediction as a solution; where there is a unit, also without the unit that it ends with."""
    form, symbols = gold.solution.form, gold.symbols
    with contextlib.suppress(NotReadError):
        yield read_solution(text, form, symbols=symbols)
    if gold.unit is None:
        return
    bare = plain(text)
    for at in (i for i in range(1, len(bare)) if bare[i].isspace() or (bare[i - 1].isdigit() and bare[i].isalpha())):
        unit = unit_of(bare[at:])
        if unit is not None and unit.powers == gold.unit.powers:
            with contextlib.suppress(NotReadError):
                yield _times(read_solution(bare[:at], form, symbols=symbols), unit.factor / gold.unit.factor)


def _times(solution: Solution, factor: Fraction) -> Solution:
    number = Tree("/", parts=(Tree("number", str(factor.numerator)), Tree("number", str(factor.denominator))))
    (entry,) = solution.rows[0]
    return Solution(solution.form, ((Entry((Tree("*", parts=(number, entry.sides[0])),), entry.head),),))
