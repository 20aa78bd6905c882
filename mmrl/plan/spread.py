"""Percentiles that occur: of many numbers, the smallest one that has at least that share at or below it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

LEVELS = (50, 90, 99, 100)


def percentile(ordered: Sequence[int], level: int) -> int:
    """Of numbers in ascending order; 0 of none.

    >>> [percentile([1, 2, 3, 10], level) for level in (50, 90, 100)]
    [2, 10, 10]
    """
    if not ordered:
        return 0
    return ordered[max(0, -(-level * len(ordered) // 100) - 1)]


def percentiles(values: Sequence[int]) -> list[int]:
    """p50, p90, p99 and the maximum.

    >>> percentiles([10, 1, 3, 2])
    [2, 10, 10, 10]
    """
    ordered = sorted(values)
    return [percentile(ordered, level) for level in LEVELS]
