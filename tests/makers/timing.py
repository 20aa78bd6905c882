"""Seconds of several ways to do the same, measured side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


def medians(functions: Sequence[Callable[[], Any]], *, repeats: int) -> list[float]:
    """Median seconds of each, run in turn so that load on the machine meets all; the first turn is left out."""
    seconds: list[list[float]] = [[] for _ in functions]
    for turn in range(repeats + 1):
        for taken, function in zip(seconds, functions, strict=True):
            start = time.perf_counter()
            function()
            if turn:
                taken.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in seconds]
