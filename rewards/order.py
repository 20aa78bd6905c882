"""Putting named things (events, frames, options) in order.

Formula: 1 if the order is right; else partial * share if the prediction is a permutation of the answer, where share is
the things in their place / K (`places`) or the pairs in the right order / (K (K - 1) / 2) (`pairs`); else 0.
Bounds: 0 to 1.
Answer: the things separated by commas, `->`, `>` or `;` (or blanks, when none of these occurs): `C, A, B`.
Space: none.
Source: Vero's ordering type (`places`, 0.2); `official` also takes its reading, all integers found anywhere in the
answer. `pairs` is Kendall's tau as (1 + tau) / 2.
Example: answer `C,A,B,D`: `C, A, B, D` 1, `A, C, B, D` 0.1 (pairs 0.166667), `C, A` 0.
"""

import itertools
import re
from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_texts
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)

_MOST_DIGITS = 100


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    partial: float = 0.2,
    measure: Literal["places", "pairs"] = "places",
    official: bool = False,
) -> float:
    """`partial`: the most a wrong permutation can score. `official`: read integers only, from anywhere."""
    read = _integers if official else _things
    gold = read(", ".join(gold_texts(sample)))
    if len(gold) < 2 or len(set(gold)) != len(gold):
        raise bad_answer(sample, wanted="a list of two or more different things")
    prediction = read(extract_prediction(completion, answer=answer) or "")
    if prediction == gold:
        return 1.0
    if sorted(prediction) != sorted(gold):
        return 0.0
    return partial * (_places(prediction, gold) if measure == "places" else _pairs(prediction, gold))


def _things(text: str) -> list[str]:
    bare = text.strip().strip("[](){}.").casefold()
    parts = re.split(r"->|→|[,;>]", bare)
    return [p.strip(" '\"") for p in (parts if len(parts) > 1 else bare.split())]


def _integers(text: str) -> list[str]:
    return [_plain(number) for number in re.findall(r"-?\d+", text)]


def _plain(number: str) -> str:
    """Without leading zeros; one of more digits than Python converts stays as it is written."""
    return str(int(number)) if len(number) <= _MOST_DIGITS else number


def _places(prediction: list[str], gold: list[str]) -> float:
    return sum(p == g for p, g in zip(prediction, gold, strict=True)) / len(gold)


def _pairs(prediction: list[str], gold: list[str]) -> float:
    pairs = list(itertools.combinations(gold, 2))
    place = {thing: index for index, thing in enumerate(prediction)}
    return sum(place[first] < place[second] for first, second in pairs) / len(pairs)
