"""Which quadrant of a picture a patch comes from.

Formula: 1 if the prediction names the answer's quadrant and no other, else 0; `official`: 1 if the texts are equal.
Bounds: 0 or 1; guessing scores 0.25 on average.
Answer: `top-left`, `top-right`, `bottom-left` or `bottom-right`, in any case, with hyphen or blank, alone or in words.
Space: none; directions are those of the picture as shown.
Source: SSL4RL, whose released check compares texts, case included.
Example: answer top-left: `Top left` 1 (official 0), `top-left or top-right` 0, `left` 0.
"""

import re

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)
CHANCE = 0.25

_QUADRANT = re.compile(r"\b(top|bottom)[\s_-]*(left|right)\b")


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", official: bool = False) -> float:
    """`official`: the source's comparison of texts."""
    gold = _quadrants(gold_text(sample))
    if len(gold) != 1:
        raise bad_answer(sample, wanted="one of top-left, top-right, bottom-left, bottom-right")
    prediction = extract_prediction(completion, answer=answer) or ""
    if official:
        return float(prediction == gold_text(sample))
    return float(_quadrants(prediction) == gold)


def _quadrants(text: str) -> set[tuple[str, str]]:
    return set(_QUADRANT.findall(text.casefold()))
