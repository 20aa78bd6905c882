"""A number within a tolerance.

Formula: 1 if |p - g| <= max(abs_tol, rel_tol * |g|), else 0; with `decimals`, p and g are rounded first. A
tolerance t of the row (`tolerance_column`) takes their place: |p - g| <= t * |g|, where g is 0 |p| <= t.
Bounds: 0 or 1.
Answer: exactly one number (`42`, `1,200`, `$3.5`, `3 chairs`, `5%`); none, several or a broken one (`5..6`) score 0.
Space: none; the number is in the unit of the dataset's answer, units are not converted.
Source: absolute and relative tolerances as in Vero; `decimals: 2` is EasyVideoR1's numerical type; `rel_tol: 0.05`
is the relaxed accuracy of chart questions.
Example: answer 3.14: `3.14` 1, `3.141` 0, with decimals=2 1. Answer 100 with rel_tol=0.05: `105` 1, `105.1` 0.
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.gold import gold_number
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_number

BOUNDS = (0.0, 1.0)

# Written decimals are not exact in binary: 100 * 0.05 must admit 105, and 0.1 + 0.2 must equal 0.3.
_ROUNDING = 1e-9


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    abs_tol: float = 0.0,
    rel_tol: float = 0.0,
    decimals: int | None = None,
    tolerance_column: str | None = None,
    percent: Literal["fraction", "ignore"] = "fraction",
) -> float:
    """`tolerance_column`: where a row may hold its own tolerance; rows without it are compared by the other options.
    `percent`: whether `5%` means 0.05 or 5, in answer and completion alike.
    """
    gold = gold_number(sample, percent=percent)
    own = _tolerance(sample, tolerance_column) if tolerance_column else None
    prediction = parse_number(extract_prediction(completion, answer=answer) or "", percent=percent)
    if prediction is None:
        return 0.0
    if own is not None:
        abs_tol, rel_tol, decimals = own if gold == 0 else 0.0, own, None
    if decimals is not None:
        gold, prediction = round(gold, decimals), round(prediction, decimals)
    slack = _ROUNDING * max(abs(gold), abs(prediction))
    return float(abs(prediction - gold) <= max(abs_tol, rel_tol * abs(gold)) + slack)


def vote(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    abs_tol: float = 0.0,
    rel_tol: float = 0.0,
    decimals: int | None = None,
    tolerance_column: str | None = None,
    percent: Literal["fraction", "ignore"] = "fraction",
) -> str | None:
    """The number, rounded to `decimals` if they count. Numbers within a tolerance of another are other answers."""
    prediction = parse_number(extract_prediction(completion, answer=answer) or "", percent=percent)
    return None if prediction is None else repr(prediction if decimals is None else round(prediction, decimals))


def _tolerance(sample: Sample, column: str) -> float | None:
    value = sample.columns.get(column)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise RewardError(f"{sample.where}: the column {column!r} is {value!r}, not a tolerance of 0 or more")
    return float(value)
