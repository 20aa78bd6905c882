"""A short answer about a chart: a number within a share of the right one, or the same text.

Formula: 1 if |p - g| <= tolerance * |g| (equality where g is 0), 0.05 by default, else 1 if the texts are equal without
case, else 0.
Bounds: 0 or 1.
Answer: a number or text; `$`, thousands separators and a final `%` are read, a percentage as its fraction too. Of
several accepted answers one must fit.
Space: none.
Source: ChartQA's relaxed accuracy (Masry et al. 2022). `official`: only plain numbers and a final `%` are numbers, and
the rest is text.
Example: answer `100`: `105` 1, `105.1` 0; answer `1,200`: `1200` 1, official 0; answer `Blue`: `blue` 1, `blue.` 0.
"""

import math

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_number

BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    tolerance: float = 0.05,
    official: bool = False,
) -> float:
    """`tolerance`: the largest error, as a share of the right number. `official`: read numbers as the source does."""
    prediction = (extract_prediction(completion, answer=answer) or "").strip()
    read = _plain_number if official else parse_number

    def fits(gold: str) -> bool:
        wanted = read(gold)
        said = None if wanted is None else read(prediction)
        if wanted is None or said is None:
            return bool(prediction) and prediction.casefold() == gold.casefold()
        return abs(said - wanted) <= tolerance * abs(wanted) * (1 + 1e-9)

    return float(any(fits(gold) for gold in gold_texts(sample)))


def _plain_number(text: str) -> float | None:
    """Python's own form of a number, or one with a final `%` as its fraction."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1) if len(text) < 50 else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None
