"""Equality of short texts as Vero normalises them, with minus signs and decimal points kept.

Formula: 1 if the normalised prediction equals any normalised answer, else 0. Normalised: NFKC without accents and
case; no commas between thousands; no `.0` at the end of a number; other signs are blanks, but a minus before a number
and a point inside one stay; no a, an, the, unless only single letters would be left. `official`: those two are blanks
as well, so that `-5` equals `5` and `3.5` equals `3 5`.
Bounds: 0 or 1.
Answer: the text itself; the dataset's answer is a text, a number, or a list of accepted ones.
Space: none.
Source: Vero's string_match, list_string_match, counting and search.
Example: answer `The Café`: `cafe.` 1; answer `1,200.0`: `1200` 1; answer `-5`: `5` 0 (official 1).
"""

import re
import unicodedata

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)

_ARTICLES = frozenset(("a", "an", "the"))
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_POINT_ZERO = re.compile(r"(?<=\d)\.0+(?![\d.])")
_SIGN = re.compile(r"(?<![\w.])-(?=\.?\d)|(?<=\d)\.(?=\d)")
_KEPT = {"-": "\x01", ".": "\x02"}


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", official: bool = False) -> float:
    """`official`: the source's normalisation, which drops minus signs and decimal points."""
    prediction = extract_prediction(completion, answer=answer)
    golds = {_normalised(gold, official=official) for gold in gold_texts(sample)}
    return float(prediction is not None and _normalised(prediction, official=official) in golds)


def _normalised(text: str, *, official: bool) -> str:
    apart = unicodedata.normalize("NFKD", text.replace("\u2212", "-")).casefold()
    plain = "".join(c for c in apart if not unicodedata.combining(c))
    plain = _POINT_ZERO.sub("", _THOUSANDS.sub("", plain))
    if not official:
        plain = _SIGN.sub(lambda m: _KEPT[m[0]], plain)
    words = re.sub(r"[^\w\x01\x02]|_", " ", plain).split()
    kept = [word for word in words if word not in _ARTICLES]
    return " ".join(words if all(len(word) == 1 for word in kept) else kept)
