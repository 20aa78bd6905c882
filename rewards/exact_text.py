"""Equality of texts after the normalisations asked for.

Formula: 1 if the normalised prediction equals any normalised answer, else 0. `official`: 1 if, in lower case and
without blanks and underscores, one of the two is a part of the other.
Bounds: 0 or 1.
Answer: the text itself; the dataset's answer is a text, a number, or a list of accepted ones.
Space: none.
Source: common practice. Minus signs and decimal points survive unless `punctuation` is dropped (Vero's normalisation
always drops them, so there `-5` equals `5`). `official` is Visual-RFT's classification, which pays a list of all names;
an empty prediction scores 0 here, though it is a part of every text.
Example: answer `Blue`: `blue` 1, `blue.` 0, with punctuation=False 1, `light blue` 0 (official 1).
"""

import string
import unicodedata

from mmrl.data.sample import Sample
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)

_DROP = str.maketrans(dict.fromkeys(string.punctuation, " "))
_ARTICLES = frozenset(("a", "an", "the"))


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    case: bool = False,
    punctuation: bool = True,
    articles: bool = True,
    official: bool = False,
) -> float:
    """`case`, `punctuation`, `articles`: whether these count. Unicode (NFKC) and blanks are always normalised.

    `official`: Visual-RFT's rule, whatever the others say.
    """
    prediction = extract_prediction(completion, answer=answer)
    if official:
        return float(any(_one_holds_the_other(prediction or "", gold) for gold in gold_texts(sample)))

    how = {"case": case, "punctuation": punctuation, "articles": articles}
    golds = {_normalised(gold, **how) for gold in gold_texts(sample)}
    return float(prediction is not None and _normalised(prediction, **how) in golds)


def vote(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    case: bool = False,
    punctuation: bool = True,
    articles: bool = True,
    official: bool = False,
) -> str | None:
    """The normalised text."""
    prediction = extract_prediction(completion, answer=answer)
    how = {"case": case, "punctuation": punctuation, "articles": articles}
    return None if prediction is None else _normalised(prediction, **how)


def _normalised(text: str, *, case: bool, punctuation: bool, articles: bool) -> str:
    text = unicodedata.normalize("NFKC", text)
    text = text if case else text.casefold()
    words = (text if punctuation else text.translate(_DROP)).split()
    return " ".join(w for w in words if articles or w.casefold() not in _ARTICLES)


def _one_holds_the_other(prediction: str, gold: str) -> bool:
    found, wanted = ("".join(text.lower().replace("_", " ").split()) for text in (prediction, gold))
    return bool(found and wanted) and (found in wanted or wanted in found)
