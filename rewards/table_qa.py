"""A question about a table, by the denotation of its answer: numbers, dates and texts, one or several.

Formula: 1 if the values are the gold's, each as often, in any order (in its order with `ordered`); else, with credit
f1, partial * 2 * common / (found + gold); else 0.
Bounds: 0 to 1.
Answer: a JSON list, `{"answer": [..]}`, or values separated by lines, `|`, `;` or commas. Values agree when they mean
the same: numbers to 9 digits without thousands commas, currency and percent signs (`45%` is 45, not 0.45); dates in
ISO form or with the month's name; texts without case, accents, quotes and footnote marks. A unit is part of a text.
Space: none.
Source: Table-R1's exact match of short answers; the normalisation follows the evaluator of WikiTableQuestions, which
compares sets: there one value more often than asked for is no error. Verdicts (entailed, refuted) are texts as well.
Example: gold [1200, "May 5, 2012"]: `2012-05-05 | $1,200` 1, `1200` 0 (f1, partial 0.5: 0.333333).
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.denotation import Value, agree, overlap_f1, read_values, values_in
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    ordered: bool = False,
    credit: Literal["all", "f1"] = "all",
    partial: float = 0.5,
) -> dict[str, float]:
    """`partial`: the most that wrong values can get with credit f1."""
    gold = _gold(sample)
    prediction = extract_prediction(completion, answer=answer)
    readings = read_values(prediction) if prediction else []
    f1 = max((overlap_f1(found, gold) for found in readings), default=0.0)
    if any(agree(found, gold, ordered=ordered) for found in readings):
        return {"reward": 1.0, "f1": f1}
    return {"reward": partial * f1 if credit == "f1" else 0.0, "f1": f1}


def _gold(sample: Sample) -> list[Value]:
    """A list, a number, or a text: JSON, or values separated by `|`."""
    found = sample.answer
    if isinstance(found, str):
        text = extract_prediction(found) or ""
        found = text.split("|") if "|" in text else text
        readings = read_values(text) if text.startswith(("[", "{", "```")) else []
        if readings:
            return readings[0]
    values = values_in(found)
    if values is None:
        raise bad_answer(sample, wanted="a text or number, or a list of these")
    return values
