"""ROUGE: how much of a text's words, pairs of words and longest common subsequence another text has. Pure.

Words are runs of letters and digits without case, and single characters of Chinese and Japanese; no stemming.

>>> round(rouge_mean("the cat sat on the mat", "the cat lay on the mat"), 6)
0.755556
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from rapidfuzz.distance import LCSseq

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")


def words(text: str) -> list[str]:
    """The words of a text.

    >>> words("It's 3.5 km; 東京!")
    ['it', 's', '3', '5', 'km', '東', '京']
    """
    return _WORD.findall(text.casefold())


def rouge_mean(reference: str, text: str) -> float:
    """Mean of the F1 of ROUGE-1, ROUGE-2 and ROUGE-L, of 0 to 1. Source: Lin 2004, averaged as in EasyVideoR1."""
    wanted, given = words(reference), words(text)
    pairs_wanted, pairs_given = list(pairwise(wanted)), list(pairwise(given))
    common = LCSseq.similarity(wanted, given)
    longest = _f1(common, len(wanted), len(given))
    return (_overlap(wanted, given) + _overlap(pairs_wanted, pairs_given) + longest) / 3


def _overlap(wanted: Sequence[object], given: Sequence[object]) -> float:
    return _f1((Counter(wanted) & Counter(given)).total(), len(wanted), len(given))


def _f1(common: int, wanted: int, given: int) -> float:
    return 2 * common / (wanted + given) if common else 0.0
