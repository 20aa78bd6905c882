"""A short answer read from a page, by ANLS.

Formula: best over the answers of 1 - edits / length of the longer text, in characters; 0 below `threshold`.
Bounds: 0 to 1.
Answer: the text itself; case, and surrounding and repeated blanks, do not count. The dataset's answer is a text, a
number, or a list of accepted ones.
Space: none.
Source: Biten et al. 2019 (ST-VQA), the score of DocVQA; threshold 0.5, itself still counting.
Example: answer `1998`: `1999` 0.75, `2001` 0; answers `New York`, `NYC`: `nyc` 1.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.text_distance import anls

BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", threshold: float = 0.5) -> float:
    """`threshold`: similarities below it score 0."""
    golds = gold_texts(sample)
    return anls(extract_prediction(completion, answer=answer) or "", golds, threshold=threshold)
