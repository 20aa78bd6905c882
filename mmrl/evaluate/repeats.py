"""Several answers to each question: pass@k, the majority's answer, and what counts only with right reasoning. Pure.

pass@k is the expected best of k of a question's n answers, drawn without replacement; where c of them are right and the
others wrong that is 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, arXiv 2107.03374, section 2.1). CoT-pass@k is pass@k
where an answer counts only if its reasoning is judged right too (Wen et al. 2025, arXiv 2506.14245).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from mmrl.evaluate.numbers import Estimate, Question, estimate_of
from mmrl.rollout.sampling import derive_seed

# A verdict on reasoning is a share of verdicts where a judge gives several: right from half on.
RIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Repeats:
    """avg: over all k answers, the score. pass_at, cot_pass_at: by the number of answers drawn, from 1 to k.

    majority: of the answer that most of the k give. None: there are no verdicts on reasoning; answers are not compared.
    """

    k: int
    avg: Estimate
    pass_at: dict[int, Estimate]
    majority: Estimate | None
    cot_pass_at: dict[int, Estimate] | None

    def lines(self) -> list[tuple[str, Estimate]]:
        """What a table shows: of pass@k the powers of two, and k."""
        shown = sorted({self.k, *(2**n for n in range(self.k.bit_length()))} & self.pass_at.keys())
        found = [(f"avg@{self.k}", self.avg)] if self.k > 1 else []
        found += [(f"pass@{k}", self.pass_at[k]) for k in shown if k > 1]
        found += [(f"majority@{self.k}", self.majority)] if self.majority is not None else []
        return found + [(f"cot-pass@{k}", self.cot_pass_at[k]) for k in shown if self.cot_pass_at is not None]


def repeats_of(questions: Sequence[Question], *, count: int, reasoning: str | None = None, **how: Any) -> Repeats:
    """Of questions with `count` answers each, or none where they failed. how: as of `estimate_of`.

    reasoning: the part of the score that is the verdict on an answer's reasoning.
    """
    several = range(1, count + 1)
    majority = cot_pass_at = None
    if count > 1 and any(question.votes for question in questions):
        majority = estimate_of([_of_majority(question) for question in questions], _first, **how)
    if reasoning is not None:
        judged = [_with_right_reasoning(question, reasoning) for question in questions]
        cot_pass_at = {k: estimate_of(judged, partial(best_of, k=k), **how) for k in several}
    pass_at = {k: estimate_of(questions, partial(best_of, k=k), **how) for k in several}
    return Repeats(count, pass_at[1], pass_at, majority, cot_pass_at)


def best_of(scores: Sequence[float], *, k: int) -> float:
    """The expected best of k of the scores.

    >>> best_of([1.0, 0.0, 0.0, 0.0], k=2), best_of([0.2, 0.5, 0.8], k=2)
    (0.5, 0.7)
    """
    if not any(scores):
        return 0.0
    chances = _chances(len(scores), k)
    return math.fsum(score * chance for score, chance in zip(sorted(scores), chances, strict=True))


@cache
def _chances(count: int, k: int) -> tuple[float, ...]:
    """How probably the i-th smallest is the best: it is that of C(i - 1, k - 1) of the C(count, k) choices."""
    return tuple(math.comb(place, k - 1) / math.comb(count, k) for place in range(count))


def majority_of(votes: Sequence[str | None], scores: Sequence[float]) -> float:
    """What the answer is worth that most of the votes are for; the mean of those that are even. Of no votes 0.

    >>> majority_of(["B", "A", "B"], [1.0, 0.0, 1.0]), majority_of(["B", "A", None], [1.0, 0.0, 0.0])
    (1.0, 0.5)
    """
    counts = Counter(vote for vote in votes if vote is not None)
    if not counts:
        return 0.0
    most = max(counts.values())
    worths = [
        math.fsum(score for vote, score in zip(votes, scores, strict=True) if vote == answer) / count
        for answer, count in counts.items()
        if count == most
    ]
    return math.fsum(worths) / len(worths)


def seed_of(seed: int, benchmark: str, key: str) -> int:
    """Of a question's answers, which the engine tells apart by their number: nothing else decides what is drawn."""
    return derive_seed(seed, benchmark, key)


def _of_majority(question: Question) -> Question:
    if not question.scores:
        return question
    return replace(question, scores=(majority_of(question.votes, question.worths),))


def _with_right_reasoning(question: Question, part: str) -> Question:
    verdicts = [answer.get(part, 0.0) >= RIGHT for answer in question.parts]
    worths = [worth if right else 0.0 for worth, right in zip(question.worths, verdicts, strict=True)]
    return replace(question, scores=tuple(worths))


def _first(scores: Sequence[float]) -> float:
    return scores[0] if scores else 0.0
