"""From scores of answers to the numbers of a benchmark. Pure.

Shape letters: U units (questions, or several that are one together), C clusters of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmrl.config.benchmark_section import CorpusMeasure
from mmrl.errors import DataError
from mmrl.evaluate.corpus import MEASURES

RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Question:
    """One question's outcome. scores: of its answers, each NaN where it could not be scored; empty: it failed.

    num_truncated: answers that were cut. num_unparsed: answers that held nothing the reward could read. columns: of
    the row. parts: of each answer's score, by name. votes: what each answer is counted for, None: for nothing; empty
    where answers are not counted. texts: the answers themselves; references: the dataset's, where they are texts.
    """

    key: str
    scores: tuple[float, ...]
    num_truncated: int
    columns: Mapping[str, Any]
    parts: tuple[Mapping[str, float], ...] = ()
    num_unparsed: int = 0
    votes: tuple[str | None, ...] = ()
    texts: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @property
    def is_answered(self) -> bool:
        """Whether it has an answer that is not empty, and a score for each."""
        return any(self.texts) and not any(map(math.isnan, self.scores))

    @property
    def worths(self) -> tuple[float, ...]:
        """The scores. What could not be scored counts 0: it never leaves a mean."""
        return tuple(0.0 if math.isnan(score) else score for score in self.scores)

    @property
    def value(self) -> float:
        """The mean over its answers, 0 without any."""
        return _mean(self.worths)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Over n_total questions, those that failed included. score: mean; low, high: its 95% interval.

    n_scored: questions with a score for every answer. n_failed: questions without answers. n_unscored: the rest.
    n_truncated, n_unparsed: answers that were cut, and that held nothing the reward could read; they are scored.
    """

    score: float
    low: float
    high: float
    n_total: int
    n_scored: int
    n_failed: int
    n_unscored: int
    n_truncated: int
    n_unparsed: int


def together(unit: Sequence[Question]) -> tuple[float, ...]:
    """What questions that are one are worth in each repeat: what the worst of them is. One that failed is worth 0.

    >>> together([Question("a", (1.0, 0.0), 0, {}), Question("b", (1.0, 1.0), 0, {})])
    (1.0, 0.0)
    """
    count = max(len(question.scores) for question in unit)
    rows = [question.worths or (0.0,) * count for question in unit]
    return tuple(map(min, zip(*rows, strict=False)))


def worth(unit: Sequence[Question]) -> float:
    """The mean of that over the repeats."""
    return _mean(together(unit))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95% interval."""

    score: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Shares:
    """A question is worth several things: those that its `column` maps to counts. part: of the score, whose further
    values, `part.name`, say how much of each is right. names: only these; empty: all.
    """

    column: str
    part: str
    names: tuple[str, ...] = ()

    def of(self, question: Question) -> list[tuple[str, int, float]]:
        """Name, count and share of each; what has no value is worth 0."""
        counts = question.columns.get(self.column) or {}
        kept = {name: count for name, count in counts.items() if count and (not self.names or name in self.names)}
        return [(name, count, _part_mean(question, f"{self.part}.{name}")) for name, count in kept.items()]


def numbers_of(
    questions: Sequence[Question],
    *,
    shares: Shares | None = None,
    groups: str | Sequence[str] | None = None,
    all_of: Sequence[str] = (),
    corpus: CorpusMeasure | None = None,
    cluster: str | None = None,
    seed: int = 0,
) -> Numbers:
    """groups: a column, or several, the coarsest first; the score is the mean over the values of the first of the
    means over the values of the next within it, and so on down to the rows. all_of: rows with the same values of these
    columns are one, worth what the worst of them is. cluster: rows of one value are drawn together when resampling,
    for they are not independent. shares: the score is the mean over the names that these give of the share that is
    right of all that the questions count under the name. corpus: the score is this measure of all answers together.

    >>> three = [Question(str(n), (float(n > 0),), 0, {"kind": "ab"[n % 2]}) for n in range(3)]
    >>> round(numbers_of(three).score, 4), numbers_of(three, groups="kind").score
    (0.6667, 0.75)
    >>> numbers_of(three, all_of=["kind"]).score
    0.5
    """
    if not questions:
        raise ValueError("no questions")
    units = _scored(questions, corpus, shares=shares, groups=groups, all_of=all_of, cluster=cluster)
    return _numbers(questions, units.score, units.resampled(seed))


def estimate_of(
    questions: Sequence[Question],
    value: Callable[[Sequence[float]], float],
    *,
    groups: Sequence[str] = (),
    all_of: Sequence[str] = (),
    cluster: str | None = None,
    seed: int = 0,
) -> Estimate:
    """As the score of `numbers_of`, where the scores of a question's answers, one a repeat, are worth `value`."""
    units = _Units.of(questions, groups=groups, all_of=all_of, cluster=cluster, value=value)
    low, high = np.nanquantile(units.resampled(seed), (0.025, 0.975)).tolist()
    return Estimate(units.score, low, high)


def mean_numbers(
    questions: Sequence[Question],
    averages: Sequence[tuple[Sequence[Question], Mapping[str, Any]]],
    *,
    weights: Sequence[float] | None = None,
    cluster: str | None = None,
    seed: int = 0,
) -> Numbers:
    """The mean of several scores of the same answers, each given by its questions and the keywords of `numbers_of`.

    weights: how much each counts; None: all the same. They are resampled together: what one question, or cluster,
    brings to one of them it brings to all.

    >>> rows = [Question(str(n), (float(n > 0),), 0, {"kind": "ab"[n % 2]}) for n in range(3)]
    >>> mean_numbers(rows, [(rows, {"groups": "kind"}), (rows[:1], {})]).score
    0.375
    """
    codes_Q = _codes([_cell(q, cluster) if cluster else q.key for q in questions])
    of_key = {question.key: int(code) for question, code in zip(questions, codes_Q, strict=True)}
    count = int(codes_Q.max()) + 1
    units = [_scored(of, **how, codes_Q=np.array([of_key[q.key] for q in of])) for of, how in averages]
    resampled = np.average([unit.resampled(seed, count=count) for unit in units], axis=0, weights=weights)
    return _numbers(questions, float(np.average([unit.score for unit in units], weights=weights)), resampled)


def _numbers(questions: Sequence[Question], score: float, resampled: np.ndarray) -> Numbers:
    low, high = np.nanquantile(resampled, (0.025, 0.975)).tolist()
    failed = sum(not question.scores for question in questions)
    scored = sum(bool(q.scores) and not any(map(math.isnan, q.scores)) for q in questions)
    return Numbers(
        score=score,
        low=low,
        high=high,
        n_total=len(questions),
        n_scored=scored,
        n_failed=failed,
        n_unscored=len(questions) - failed - scored,
        n_truncated=sum(question.num_truncated for question in questions),
        n_unparsed=sum(question.num_unparsed for question in questions),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Units:
    """What is averaged. times_U: how often each counts. levels_U: its group at each depth. cluster_U: what it is drawn
    with.
    """

    values_U: np.ndarray
    times_U: np.ndarray | float
    levels_U: Sequence[np.ndarray]
    cluster_U: np.ndarray

    @classmethod
    def of(
        cls,
        questions: Sequence[Question],
        *,
        shares: Shares | None = None,
        groups: str | Sequence[str] | None = None,
        all_of: Sequence[str] = (),
        cluster: str | None = None,
        codes_Q: np.ndarray | None = None,
        value: Callable[[Sequence[float]], float] = _mean,
    ) -> _Units:
        """codes_Q: the cluster of each question, in place of `cluster`. value: of what it is worth in each repeat."""
        units = _together(questions, all_of)
        firsts = [questions[unit[0]] for unit in units]
        if codes_Q is not None:
            cluster_U = codes_Q[[unit[0] for unit in units]]
        else:
            cluster_U = _codes([_cell(q, cluster) for q in firsts]) if cluster else np.arange(len(units))
        if shares is not None:
            values_U, levels_U, times_U, place_U = _by_share(questions, shares)
            return cls(values_U, times_U, levels_U, cluster_U[place_U])
        groups = (groups,) if isinstance(groups, str) else groups or ()
        values_U = np.array([value(together([questions[place] for place in unit])) for unit in units])
        levels_U = [_codes([_cells(q, groups[:depth]) for q in firsts]) for depth in range(len(groups) + 1)]
        return cls(values_U, np.ones(len(units)), levels_U, cluster_U)

    @property
    def score(self) -> float:
        return _mean_of_means(self.values_U, np.ones(len(self.values_U)) * self.times_U, self.levels_U)

    def resampled(self, seed: int, *, count: int | None = None) -> np.ndarray:
        """Scores of bootstrap resamples of whole clusters, `count` of them, those without a unit here included."""
        draws = np.random.default_rng(seed)
        count = int(self.cluster_U.max()) + 1 if count is None else count
        scores = []
        for _ in range(RESAMPLES):
            times_C = np.bincount(draws.integers(0, count, size=count), minlength=count)
            scores.append(_mean_of_means(self.values_U, times_C[self.cluster_U] * self.times_U, self.levels_U))
        return np.array(scores)


@dataclass(frozen=True, slots=True, eq=False)
class _Corpus:
    """All answers together. counts_QK: of each question, the mean over its answers; one that failed says nothing."""

    counts_QK: np.ndarray
    cluster_Q: np.ndarray
    of_sum: Callable[[np.ndarray], float]

    @classmethod
    def of(
        cls,
        questions: Sequence[Question],
        measure: CorpusMeasure,
        *,
        cluster: str | None = None,
        codes_Q: np.ndarray | None = None,
    ) -> _Corpus:
        measured = MEASURES[measure]
        if missing := next((q.key for q in questions if not q.references), None):
            raise DataError(f"the measure {measure!r} compares texts, and the answer of question {missing!r} is none")
        times = max(1, *(len(question.texts) for question in questions))
        said = [question.texts or ("",) * times for question in questions]
        repeats = zip(*said, strict=True)
        counts = [measured.counts(list(zip(of, (q.references for q in questions), strict=True))) for of in repeats]
        if codes_Q is None:
            codes_Q = _codes([_cell(q, cluster) for q in questions]) if cluster else np.arange(len(questions))
        return cls(np.mean(counts, axis=0), codes_Q, measured.score)

    @property
    def score(self) -> float:
        return self.of_sum(self.counts_QK.sum(axis=0))

    def resampled(self, seed: int, *, count: int | None = None) -> np.ndarray:
        """As of `_Units`; not a number where no question here is drawn."""
        draws = np.random.default_rng(seed)
        count = int(self.cluster_Q.max()) + 1 if count is None else count
        scores = []
        for _ in range(RESAMPLES):
            times_Q = np.bincount(draws.integers(0, count, size=count), minlength=count)[self.cluster_Q]
            scores.append(self.of_sum(times_Q @ self.counts_QK) if times_Q.any() else math.nan)
        return np.array(scores)


def _scored(questions: Sequence[Question], corpus: CorpusMeasure | None = None, **how: Any) -> _Units | _Corpus:
    if corpus is None:
        return _Units.of(questions, **how)
    kept = {name: how[name] for name in ("cluster", "codes_Q") if name in how}
    return _Corpus.of(questions, corpus, **kept)


def interval(
    values_U: np.ndarray,
    *,
    levels_U: Sequence[np.ndarray],
    cluster_U: np.ndarray,
    seed: int,
    times_U: np.ndarray | float = 1.0,
) -> tuple[float, float]:
    """The 2.5% and 97.5% quantiles of the score over bootstrap resamples of whole clusters.

    times_U: how often each unit counts.
    """
    scores = _Units(values_U, times_U, levels_U, cluster_U).resampled(seed)
    low, high = np.nanquantile(scores, (0.025, 0.975)).tolist()
    return low, high


def _by_share(
    questions: Sequence[Question], shares: Shares
) -> tuple[np.ndarray, list[np.ndarray], np.ndarray, np.ndarray]:
    """Values, levels, counts and the question's number of every name of every question."""
    entries = [(place, *entry) for place, question in enumerate(questions) for entry in shares.of(question)]
    places, names, counts, values = zip(*entries, strict=True)
    levels = [np.zeros(len(entries), dtype=int), _codes(names)]
    return np.array(values), levels, np.array(counts, dtype=float), np.array(places)


def only(questions: Sequence[Question], wanted: Mapping[str, Any]) -> list[Question]:
    """The questions with these values in these columns; of a list any one."""
    accepted = {column: value if isinstance(value, list | tuple) else [value] for column, value in wanted.items()}
    return [q for q in questions if all(q.columns.get(column) in values for column, values in accepted.items())]


def of_part(questions: Sequence[Question], name: str) -> list[Question]:
    """The questions with a part's values for scores; an answer without the value is worth 0."""
    return [
        replace(question, scores=tuple(answer.get(name, 0.0) for answer in question.parts)) for question in questions
    ]


def part_means(questions: Sequence[Question]) -> dict[str, float]:
    """The mean of every part of the score over questions and their answers; what has no value counts 0."""
    names = [name for name in _named(questions) if not _is_measure(name, questions)]
    return {name: math.fsum(_part_mean(question, name) for question in questions) / len(questions) for name in names}


@dataclass(frozen=True, slots=True)
class Measure:
    """What a part returns beside its score, such as a distance: the mean over the n answers for which it does."""

    mean: float
    n: int


def measures_of(questions: Sequence[Question]) -> dict[str, Measure]:
    """By `part.name`. An answer without the value, such as a plan that cannot be read, has no distance, not 0."""
    found = {}
    for name in _named(questions):
        if _is_measure(name, questions):
            values = [answer[name] for question in questions for answer in question.parts if name in answer]
            found[name] = Measure(math.fsum(values) / len(values), len(values))
    return found


def _named(questions: Sequence[Question]) -> dict[str, None]:
    return dict.fromkeys(name for question in questions for answer in question.parts for name in answer)


def _is_measure(name: str, questions: Sequence[Question]) -> bool:
    """Whether it is named after a part that has a value of its own."""
    return any(name.startswith(f"{part}.") for part in _named(questions))


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


def _cells(question: Question, columns: Sequence[str]) -> tuple[Hashable, ...]:
    return tuple(_cell(question, column) for column in columns)


def _together(questions: Sequence[Question], columns: Sequence[str]) -> list[list[int]]:
    """The places of questions that are one together; each alone where no columns are named."""
    if not columns:
        return [[place] for place in range(len(questions))]
    found: dict[Hashable, list[int]] = defaultdict(list)
    for place, question in enumerate(questions):
        found[_cells(question, columns)].append(place)
    return list(found.values())


def _codes(values: Sequence[Hashable]) -> np.ndarray:
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values])


def _mean_of_means(values_U: np.ndarray, times_U: np.ndarray, levels_U: Sequence[np.ndarray]) -> float:
    """Each unit counted `times_U` times; groups without a unit do not count.

    levels_U: the unit's group at each depth; the first level is one group, the score.
    """
    values, times, levels = values_U, times_U, list(levels_U)
    while levels:
        groups = levels.pop()
        totals, counts = np.bincount(groups, times * values), np.bincount(groups, times)
        there = counts > 0
        values, times = np.divide(totals, counts, out=np.zeros_like(totals), where=there), there.astype(float)
        # A group lies in the coarser groups that its units lie in.
        first_of_group = np.unique(groups, return_index=True)[1]
        levels = [level[first_of_group] for level in levels]
    return float(values[0]) if times[0] else math.nan
