"""The fields of a document as JSON: F1 of keys with their values.

Formula: F1 = 2 * matches / (pairs of the prediction + pairs of the answer); a pair is a path of keys with a value.
Places in lists are no part of a path; each pair matches once. A match counts 1, with `similarity` the ANLS of its
value (0 below `threshold`); of pairs with equal paths those are matched that give the highest sum.
Bounds: 0 to 1.
Answer: one JSON object (or Python literal), bare or in a code fence; else 0. The dataset's answer is an object or its
text. Values are compared as text, without regard to case and repeated blanks; numbers by value, quoted or not.
Space: none.
Source: field F1 of key information extraction (SROIE, CORD); `similarity` with ANLS's threshold of 0.5 is ours.
Example: answer {"total": "9.90", "date": "May 1"}: {"total": 9.90, "date": "May 2"} 0.5, with similarity 0.9.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.literals import read_literal
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.text_distance import anls, clean_text

BOUNDS = (0.0, 1.0)

Path = tuple[str, ...]


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    similarity: bool = False,
    threshold: float = 0.5,
) -> float:
    """`similarity`: values that are nearly right count in part, from an ANLS of `threshold` on."""
    gold = _pairs(read_literal(sample.answer) if isinstance(sample.answer, str) else sample.answer)
    if not gold:
        raise bad_answer(sample, wanted="a JSON object with values")
    found = _pairs(read_literal(extract_prediction(completion, answer=answer) or ""))
    matches = sum(
        _matches(found[path], values, threshold if similarity else None)
        for path, values in gold.items()
        if path in found
    )
    return 2 * matches / (sum(map(len, gold.values())) + sum(map(len, found.values())))


def _pairs(value: Any) -> dict[Path, list[str]]:
    pairs: dict[Path, list[str]] = defaultdict(list)
    for path, text in _leaves(value, ()) if isinstance(value, dict) else ():
        pairs[path].append(text)
    return pairs


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every value that is no list or object, as text, with the keys on the way; nulls and empty texts are left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, clean_text(str(key)).lower()))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, path)
    elif value is not None and (text := _text(value)):
        yield path, text


def _text(value: Any) -> str:
    return clean_text(str(value)).lower()


def _matches(found: list[str], wanted: list[str], threshold: float | None) -> float:
    """The highest sum over pairings of the values of one path."""
    worth = np.array([[_worth(one, other, threshold) for other in wanted] for one in found])
    rows, columns = linear_sum_assignment(worth, maximize=True)
    return float(worth[rows, columns].sum())


def _worth(one: str, other: str, threshold: float | None) -> float:
    if one == other or _number(one) == _number(other) is not None:
        return 1.0
    return 0.0 if threshold is None else anls(one, [other], threshold=threshold)


def _number(text: str) -> float | None:
    try:
        return float(text) if len(text) < 30 else None
    except ValueError:
        return None
