"""From passed tests to one score by how hard the tests are. Pure.

A test's pass rate (of earlier models or rollouts) says how hard it is: 1 is always passed, 0 never.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def groups_by_pass_rate(pass_rates: Sequence[float]) -> list[list[int]]:
    """Indices of tests of equal pass rate, easiest group first.

    >>> groups_by_pass_rate([0.9, 0.1, 0.9])
    [[0, 2], [1]]
    """
    return [[i for i, p in enumerate(pass_rates) if p == rate] for rate in sorted(set(pass_rates), reverse=True)]


def mimo_score(groups: Sequence[Sequence[bool]], scores: Sequence[float], *, strict: bool) -> float:
    """MiMo's test-difficulty reward over groups of pass flags, easiest first, as a share of all scores.

    strict: a group's score counts if all its tests and those of every easier group pass.
    Soft: each passed test gets an equal share of its group's score.

    >>> flags = [[True, True], [True, False], [True, True]]
    >>> round(mimo_score(flags, [1, 2, 4], strict=True), 4), round(mimo_score(flags, [1, 2, 4], strict=False), 4)
    (0.1429, 0.8571)
    """
    total = math.fsum(scores)
    if not strict:
        return math.fsum(s * sum(g) / len(g) for g, s in zip(groups, scores, strict=True)) / total
    got = 0.0
    for flags, score in zip(groups, scores, strict=True):
        if not all(flags):
            break
        got += score
    return got / total


def exponential_score(passed: Sequence[bool], pass_rates: Sequence[float], *, sharpness: float) -> float:
    """Share of passed tests, each weighted by exp(sharpness * (1 - pass rate)).

    >>> round(exponential_score([True, False], [1.0, 0.0], sharpness=1.0), 6)
    0.268941
    """
    weights = [math.exp(sharpness * (1.0 - rate)) for rate in pass_rates]
    return math.fsum(w for w, ok in zip(weights, passed, strict=True) if ok) / math.fsum(weights)
