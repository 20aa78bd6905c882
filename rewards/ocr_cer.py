"""Reading a text: one minus the character error rate.

Formula: max(0, 1 - (characters inserted, deleted and replaced) / (characters of the answer)).
Bounds: 0 to 1.
Answer: the text itself; runs of white space count as one blank, and with case=False case does not count.
Space: none.
Source: common practice (CER of speech and text recognition, turned round and cut off at 0).
Example: answer `hello`: `hallo` 0.8, `hell` 0.8, `Hello` 0.8, with case=False 1, `hello hello` 0.
"""

from rapidfuzz.distance import Levenshtein

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.text_distance import clean_text

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {"constant": "it pays for shared characters, and any short word shares some with another"}


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", case: bool = True) -> float:
    """`case`: whether upper and lower case differ."""
    gold = clean_text(gold_text(sample))
    found = clean_text(extract_prediction(completion, answer=answer) or "")
    if len(found) >= 2 * len(gold):
        return 0.0  # as many characters too many as the answer has
    if not case:
        gold, found = gold.lower(), found.lower()
    return max(0.0, 1.0 - Levenshtein.distance(gold, found) / len(gold))
