"""From scores of answers to the numbers of a benchmark. Pure.

Shape letters: N questions, R answers to each, C clusters, B resamples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Question:
    """One question's outcome. scores: of its answers, each NaN where it could not be scored; empty: it failed.

    num_truncated: answers that were cut. columns: of the row. parts: of each answer's score, by name.
    """

    key: str
    scores: tuple[float, ...]
    num_truncated: int
    columns: Mapping[str, Any]
    parts: tuple[Mapping[str, float], ...] = ()

    @property
    def value(self) -> float:
        """The mean over its answers. What failed or could not be scored counts 0: it never leaves the mean."""
        known = [0.0 if math.isnan(score) else score for score in self.scores]
        return math.fsum(known) / len(known) if known else 0.0


@dataclass(frozen=True, slots=True)
class Numbers:
    """Over n_total questions, those that failed included. score: mean; low, high: its 95% interval.

    n_scored: questions with a score for every answer. n_failed: questions without answers. n_unscored: the rest.
    best_of: mean over questions of the best answer; None with one answer each.
    """

    score: float
    low: float
    high: float
    n_total: int
    n_scored: int
    n_failed: int
    n_unscored: int
    n_truncated: int
    best_of: float | None = None


def numbers_of(
    questions: Sequence[Question], *, groups: str | None = None, cluster: str | None = None, seed: int = 0
) -> Numbers:
    """groups: the score is the mean over the means of this column's values. cluster: rows of one value are drawn
    together when resampling, for they are not independent.

    >>> three = [Question(str(n), (float(n > 0),), 0, {}) for n in range(3)]
    >>> round(numbers_of(three).score, 4)
    0.6667
    """
    if not questions:
        raise ValueError("no questions")
    values_N = np.array([question.value for question in questions])
    group_N = _codes([_cell(q, groups) for q in questions]) if groups else np.zeros(len(questions), dtype=int)
    cluster_N = _codes([_cell(q, cluster) for q in questions]) if cluster else np.arange(len(questions))
    low, high = interval(values_N, group_N=group_N, cluster_N=cluster_N, seed=seed)
    failed = sum(not question.scores for question in questions)
    scored = sum(bool(q.scores) and not any(map(math.isnan, q.scores)) for q in questions)
    several = any(len(question.scores) > 1 for question in questions)
    return Numbers(
        score=_mean_of_means(values_N, np.ones(len(values_N)), group_N),
        low=low,
        high=high,
        n_total=len(questions),
        n_scored=scored,
        n_failed=failed,
        n_unscored=len(questions) - failed - scored,
        n_truncated=sum(question.num_truncated for question in questions),
        best_of=_best(questions) if several else None,
    )


def interval(values_N: np.ndarray, *, group_N: np.ndarray, cluster_N: np.ndarray, seed: int) -> tuple[float, float]:
    """The 2.5% and 97.5% quantiles of the score over bootstrap resamples of whole clusters."""
    draws = np.random.default_rng(seed)
    count = int(cluster_N.max()) + 1
    scores = []
    for _ in range(RESAMPLES):
        times_C = np.bincount(draws.integers(0, count, size=count), minlength=count)
        scores.append(_mean_of_means(values_N, times_C[cluster_N].astype(float), group_N))
    low, high = np.nanquantile(scores, (0.025, 0.975)).tolist()
    return low, high


def part_means(questions: Sequence[Question]) -> dict[str, float]:
    """The mean of every part of the score over questions and their answers; what has no value counts 0."""
    names = dict.fromkeys(name for question in questions for answer in question.parts for name in answer)
    return {name: math.fsum(_part_mean(question, name) for question in questions) / len(questions) for name in names}


def _part_mean(question: Question, name: str) -> float:
    values = [answer.get(name, math.nan) for answer in question.parts]
    return math.fsum(0.0 if math.isnan(value) else value for value in values) / len(values) if values else 0.0


def by_value(questions: Sequence[Question], column: str) -> dict[str, list[Question]]:
    """The questions of each value of a column, by the value's text, sorted."""
    found: dict[str, list[Question]] = defaultdict(list)
    for question in questions:
        found[str(_cell(question, column))].append(question)
    return dict(sorted(found.items()))


def _cell(question: Question, column: str) -> Hashable:
    """A value of a row; a list or mapping by its text."""
    value = question.columns.get(column)
    return value if isinstance(value, Hashable) else str(value)


def _codes(values: Sequence[Hashable]) -> np.ndarray:
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values])


def _mean_of_means(values_N: np.ndarray, times_N: np.ndarray, group_N: np.ndarray) -> float:
    """Each row counted `times_N` times; groups without a row do not count."""
    totals, counts = np.bincount(group_N, times_N * values_N), np.bincount(group_N, times_N)
    there = counts > 0
    return float((totals[there] / counts[there]).mean()) if there.any() else math.nan


def _best(questions: Sequence[Question]) -> float:
    best = [max((0.0 if math.isnan(s) else s for s in question.scores), default=0.0) for question in questions]
    return math.fsum(best) / len(best)
