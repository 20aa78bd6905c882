"""The answers of a group without labels: which are the same, which most gave, and how unlike each is to others. Pure.

Shape letters: N completions, D numbers of an encoding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_number

NO_ANSWER = -1


def answer_classes(completions: Sequence[str], *, answer: AnswerFormat = "auto") -> list[int]:
    """The number of each completion's answer, counted from 0 as they first occur; NO_ANSWER where there is none.

    Case and blanks do not count, and numbers are equal that have the same value.

    >>> answer_classes(["4", "five", "4.0", "<answer></answer>"])
    [0, 1, 0, -1]
    """
    numbers: dict[float | str, int] = {}
    classes = []
    for text in (extract_prediction(completion, answer=answer) for completion in completions):
        if text is None:
            classes.append(NO_ANSWER)
            continue
        value = parse_number(text)
        key = " ".join(text.casefold().split()) if value is None else value
        classes.append(numbers.setdefault(key, len(numbers)))
    return classes


def in_majority(classes: Sequence[int]) -> list[bool]:
    """Whether each answer is the one given most often; of several, that of the lowest number.

    >>> in_majority([0, 1, 1, 2, NO_ANSWER])
    [False, True, True, False, False]
    """
    given = [number for number in classes if number != NO_ANSWER]
    winner = int(np.bincount(given).argmax()) if given else None
    return [number == winner for number in classes]


def novelties(vectors_ND: np.ndarray, majority: Sequence[bool]) -> list[float]:
    """1 - (mean cosine to the others of its camp + largest cosine to any other) / 2, of unit vectors; of 0 to 2.

    majority: which of the two camps each is in. A mean or a largest of nobody is 0.

    >>> novelties(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), [True, True, False])
    [0.4, 0.3, 0.6]
    """
    cosine_NN = np.clip(vectors_ND.astype(float) @ vectors_ND.T.astype(float), -1.0, 1.0)
    majority_N, found = np.asarray(majority), []
    for row in range(len(majority_N)):
        others_N = np.arange(len(majority_N)) != row
        camp_N = others_N & (majority_N == majority_N[row])
        mean = cosine_NN[row, camp_N].mean() if camp_N.any() else 0.0
        nearest = cosine_NN[row, others_N].max() if others_N.any() else 0.0
        found.append(round(1 - float(mean + nearest) / 2, 9))
    return found
