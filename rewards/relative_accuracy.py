"""A number by mean relative accuracy: how many tolerances it meets.

Formula: MRA = (1 / 10) * #{t in 0.5, 0.55, ..., 0.95: |p - g| / |g| <= 1 - t}; for g = 0 1 if p = 0, else 0.
Bounds: 0 to 1.
Answer: exactly one number, read as by `numeric`.
Space: none.
Unit: that of the dataset's answer; units are not converted.
Source: VSI-Bench, with |g| where its code divides by g (a negative answer would accept anything below it) and with
decimals compared exactly; EasyVideoR1 asks for `<` instead of `<=`: `strict`.
Example: answer 10: `10` 1, `10.5` 1, `11` 0.9, `8` 0.7, `5` 0.1 (strict 0), `-10` 0.
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_number
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_number

BOUNDS = (0.0, 1.0)

_TOLERANCES = tuple(k / 20 for k in range(1, 11))
_ROUNDING = 1e-9


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    strict: bool = False,
    percent: Literal["fraction", "ignore"] = "fraction",
) -> float:
    """`strict`: an error equal to a tolerance misses it. `percent`: whether `5%` means 0.05 or 5."""
    gold = gold_number(sample, percent=percent)
    prediction = parse_number(extract_prediction(completion, answer=answer) or "", percent=percent)
    if prediction is None:
        return 0.0
    if gold == 0:
        return float(prediction == 0)
    error = abs(prediction - gold) / abs(gold)
    slack = -_ROUNDING if strict else _ROUNDING
    return sum(error <= tolerance + slack for tolerance in _TOLERANCES) / len(_TOLERANCES)
