"""How far one text is from another, in edited characters. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein


def clean_text(text: str) -> str:
    """NFC, with every run of white space as one blank.

    >>> clean_text(" New\\n York")
    'New York'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def similarity(prediction: str, reference: str) -> float:
    """1 - edits / length of the longer text, in characters: 1 for equal texts, two empty ones included.

    >>> similarity("Pariss", "Paris")
    0.8333333333333334
    """
    return Levenshtein.normalized_similarity(prediction, reference)


def anls(prediction: str, references: Sequence[str], *, threshold: float = 0.5) -> float:
    """Average normalised Levenshtein similarity, for one question: the best similarity, 0 below the threshold.

    Texts are compared without regard to case and surrounding or repeated blanks. Source: Biten et al. 2019 (ST-VQA),
    threshold 0.5. The threshold itself still counts.

    >>> anls("nyc", ["New York", "NYC"]), anls("abxy", ["abcd"]), anls("abxyz", ["abcde"])
    (1.0, 0.5, 0.0)
    """
    said = clean_text(prediction).lower()
    best = max(similarity(said, clean_text(reference).lower()) for reference in references)
    return best if best >= threshold else 0.0
