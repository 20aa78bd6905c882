"""A number within a tolerance.

Formula: 1 if |p - g| <= max(abs_tol, rel_tol * |g|), else 0; with `decimals`, p and g are rounded first.
Bounds: 0 or 1.
Answer: exactly one number (`42`, `1,200`, `$3.5`, `3 chairs`, `5%`); none, several or a broken one (`5..6`) score 0.
Space: none; the number is in the unit of the dataset's answer, units are not converted.
Source: absolute and relative tolerances as in Vero; `decimals: 2` is EasyVideoR1's numerical type; `rel_tol: 0.05`
is the relaxed accuracy of chart questions.
Example: answer 3.14: `3.14` 1, `3.141` 0, with decimals=2 1. Answer 100 with rel_tol=0.05: `105` 1, `105.1` 0.
"""

from typing import Literal

from mmrl.data.sample import Sample
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
    percent: Literal["fraction", "ignore"] = "fraction",
) -> float:
    """`percent`: whether `5%` means 0.05 or 5, in answer and completion alike."""
    gold = gold_number(sample, percent=percent)
    prediction = parse_number(extract_prediction(completion, answer=answer) or "", percent=percent)
    if prediction is None:
        return 0.0
    if decimals is not None:
        gold, prediction = round(gold, decimals), round(prediction, decimals)
    slack = _ROUNDING * max(abs(gold), abs(prediction))
    return float(abs(prediction - gold) <= max(abs_tol, rel_tol * abs(gold)) + slack)
