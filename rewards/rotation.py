"""By how many degrees a picture was turned.

Formula: 1 if the predicted angle equals the answer modulo 360, else 0; `official`: 1 if the texts are equal.
Bounds: 0 or 1; guessing among four angles scores 0.25 on average.
Answer: one number, `90`, `90 degrees`, `-270`.
Space: none. Unit: degrees, in the direction the prompt states (SSL4RL: counter-clockwise).
Source: SSL4RL, whose released check compares texts.
Example: answer 90: `90` 1, `90 degrees` 1 (official 0), `450` 1 (official 0), `180` 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_number, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_number

BOUNDS = (0.0, 1.0)
CHANCE = 0.25


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", official: bool = False) -> float:
    """`official`: the source's comparison of texts."""
    prediction = extract_prediction(completion, answer=answer) or ""
    gold = gold_number(sample)
    if official:
        return float(prediction == gold_text(sample))
    angle = parse_number(prediction)
    return float(angle is not None and angle % 360 == gold % 360)
