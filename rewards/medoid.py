"""How near a completion is to the one of its group that is most like all others.

Formula: 1 - edits to the medoid / most edits between any two of the group; the medoid has the least mean edits to the
others, of several the first. Alone, and where all are alike, 1.
Bounds: 0 to 1.
Answer: the text itself, by its first 40 000 characters; runs of white space count as one blank. The dataset's answer is
not looked at.
Space: none.
Source: olmOCR 2, medoid_reward, which its release does not use: agreement in place of a reference.
Example: `kitten`, `sitten`, `mitten`, `sitting`: 0.666667, 1, 0.666667, 0.333333: the second is 1, 1 and 2 edits away,
and no two are farther apart than 3.
"""

from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from mmrl.data.sample import Sample
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.text_distance import clean_text

BOUNDS = (0.0, 1.0)
_LONGEST = 40_000  # characters: a page has fewer, and time grows with their square
_PAYS_AGREEMENT = "it pays agreement alone, and all are alike that say the same; give it a small weight"
KNOWN_HACKS = dict.fromkeys(("constant", "echo", "options", "empty", "repeated"), _PAYS_AGREEMENT)


def score_group(completions: Sequence[str], sample: Sample, *, answer: AnswerFormat = "auto") -> list[float]:
    """A number per completion."""
    texts = [clean_text(extract_prediction(completion, answer=answer) or "")[:_LONGEST] for completion in completions]
    edits_NN = cdist(texts, texts, scorer=Levenshtein.distance, dtype=np.int64)
    most = max(1, int(edits_NN.max()))
    medoid = int(edits_NN.sum(axis=1).argmin())
    return (1 - edits_NN[medoid] / most).tolist()
