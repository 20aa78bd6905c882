"""Reading a text: one minus the word error rate.

Formula: max(0, 1 - (words inserted, deleted and replaced) / (words of the answer)).
Bounds: 0 to 1.
Answer: the text itself; case does not count, blanks separate words, everything else does count.
Space: none.
Source: EasyVideoR1's OCR type.
Example: answer `Open at nine`: `open at nine` 1, `open at ten` 0.666667, `Open` 0.333333, `open at nine or ten`
0.333333.
"""

from rapidfuzz.distance import Levenshtein

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto") -> float:
    """Of 0 to 1."""
    gold = gold_text(sample).lower().split()
    found = (extract_prediction(completion, answer=answer) or "").lower().split()
    if len(found) >= 2 * len(gold):
        return 0.0  # as many words too many as the answer has
    return max(0.0, 1.0 - Levenshtein.distance(gold, found) / len(gold))
