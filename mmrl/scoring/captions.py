"""BLEU, ROUGE-L and CIDEr-D of a whole set of texts, as counts of each text that are summed. Pure.

Words are runs of letters, digits, `_` and `'` and numbers with their points, without case; the published measures split
words by the Stanford tokenizer, which treats signs otherwise.
Source: pycocoevalcap: BLEU with the closest reference's length, ROUGE-L with beta 1.2, CIDEr-D with sigma 6.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import LCSseq

ORDERS = 4
_WORD = re.compile(r"\d+(?:\.\d+)?|[^\W\d][\w']*")
_BETA2, _SIGMA = 1.2**2, 6.0
_TINY, _SMALL = 1e-15, 1e-9  # as in the source: an order without a match gives nearly 0
_MATCHED, _GUESSED = slice(0, ORDERS), slice(ORDERS, 2 * ORDERS)
_LENGTH, _REFERENCE, _ROUGE, _CIDER, _TEXTS = range(2 * ORDERS, 2 * ORDERS + 5)

Pair = tuple[str, Sequence[str]]
NGrams = Counter[tuple[str, ...]]


def counts_of(pairs: Sequence[Pair]) -> np.ndarray:
    """A row of counts for each (text, references); `caption_score` of their sum is the set's score.

    How rare an n-gram is for CIDEr is told by the references of all pairs, also where only some rows are summed.
    """
    frequency = Counter(gram for _, references in pairs for gram in set().union(*map(_grams, references)))
    return np.array([_counts(text, references, frequency, len(pairs)) for text, references in pairs])


def caption_score(total: np.ndarray) -> float:
    """DriveLM's language score: the mean of mean BLEU-1 to 4, ROUGE-L and CIDEr / 10, of 0 to 1.

    >>> same = counts_of([("the car turns left now", ["The car turns left now."]), ("stop", ["wait here"])])
    >>> round(caption_score(same.sum(axis=0)), 6)
    0.590289
    """
    bleu = bleu_scores(total)
    texts = total[_TEXTS]
    return float((sum(bleu) / ORDERS + total[_ROUGE] / texts + total[_CIDER] / texts / 10) / 3)


def bleu_scores(total: np.ndarray) -> list[float]:
    """BLEU-1 to 4 of summed counts."""
    length, reference = total[_LENGTH], total[_REFERENCE]
    brief = math.exp(min(0.0, 1 - reference / length)) if length else 0.0
    shares = (total[_MATCHED] + _TINY) / (total[_GUESSED] + _SMALL)
    return [brief * float(np.prod(shares[:order]) ** (1 / order)) for order in range(1, ORDERS + 1)]


def _counts(text: str, references: Sequence[str], frequency: Counter[tuple[str, ...]], size: int) -> np.ndarray:
    said, wanted = _words(text), [_words(reference) for reference in references]
    grams, most = _grams(text), Counter[tuple[str, ...]]()
    for reference in references:
        most |= _grams(reference)
    row = np.zeros(_TEXTS + 1)
    for gram, count in grams.items():
        row[len(gram) - 1] += min(count, most[gram])
        row[ORDERS + len(gram) - 1] += count
    row[_LENGTH] = len(said)
    row[_REFERENCE] = min(map(len, wanted), key=lambda length: (abs(length - len(said)), length))
    row[_ROUGE] = _rouge(said, wanted)
    row[_CIDER] = 10 * sum(_cider(grams, _grams(of), frequency, size) for of in references) / len(references)
    row[_TEXTS] = 1
    return row


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _grams(text: str) -> NGrams:
    words = _words(text)
    return Counter(tuple(words[at : at + n]) for n in range(1, ORDERS + 1) for at in range(len(words) - n + 1))


def _rouge(said: Sequence[str], wanted: Sequence[Sequence[str]]) -> float:
    common = [(LCSseq.similarity(said, reference), len(reference)) for reference in wanted]
    precision = max((shared / len(said) for shared, _ in common), default=0.0) if said else 0.0
    recall = max((shared / length for shared, length in common if length), default=0.0)
    return (1 + _BETA2) * precision * recall / (recall + _BETA2 * precision) if precision and recall else 0.0


def _cider(said: NGrams, wanted: NGrams, frequency: Counter[tuple[str, ...]], size: int) -> float:
    """The mean over the orders of the cosine of counts weighted by rarity and cut off at the reference's, times what
    the lengths are worth.
    """
    weights = {gram: math.log(size / max(1, frequency[gram])) for gram in said | wanted}
    products, norms = np.zeros(ORDERS), np.zeros((2, ORDERS))
    for gram, weight in weights.items():
        order, a, b = len(gram) - 1, said[gram] * weight, wanted[gram] * weight
        products[order] += min(a, b) * b
        norms[:, order] += a * a, b * b
    lengths = [sum(count for gram, count in of.items() if len(gram) == 2) for of in (said, wanted)]
    scale = np.sqrt(norms.prod(axis=0))
    cosines = np.divide(products, scale, out=np.zeros(ORDERS), where=scale > 0)
    return float(cosines.mean()) * math.exp(-((lengths[0] - lengths[1]) ** 2) / (2 * _SIGMA**2))
