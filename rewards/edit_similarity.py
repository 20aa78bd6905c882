"""A text against the text of the answer, by edited characters.

Formula: 1 - edits / length of the longer text, in characters.
Bounds: 0 to 1.
Answer: the text itself, such as the Markdown of a page; runs of white space count as one blank, and with case=False
case does not count.
Space: none.
Source: common practice; 1 minus the normalised edit distance of OmniDocBench.
Example: answer `kitten`: `sitting` 0.571429, `kitten` 1, the empty text 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.text_distance import clean_text, similarity

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {"options": "it pays for shared characters, so a list of answers with the right one is right in part"}
_FAR = 20  # times the answer's length: the score cannot exceed 0.05 there, and is taken as 0


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", case: bool = True) -> float:
    """Of 0 to 1; a text 20 times as long as the answer scores 0. `case`: whether upper and lower case differ."""
    gold = clean_text(gold_text(sample))
    found = clean_text(extract_prediction(completion, answer=answer) or "")
    if not case:
        gold, found = gold.lower(), found.lower()
    return 0.0 if len(found) >= _FAR * len(gold) else similarity(found, gold)
