"""What `mmrl score` prints: how the rewards of a file are distributed, per task and part. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mmrl.scoring.scores import Scores

_BLOCKS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_BINS = 10
TOTAL = "(reward)"


@dataclass(frozen=True, slots=True)
class Distribution:
    """Values of one part of one task, or of its whole reward; NaN where unscored. seconds: of all of them together."""

    task: str
    part: str
    values_N: np.ndarray
    errors: int
    timeouts: int
    seconds: float

    @property
    def scored_N(self) -> np.ndarray:
        return self.values_N[~np.isnan(self.values_N)]


def distributions(tasks_N: Sequence[str], scores: Scores) -> Iterator[Distribution]:
    """Of every task, by name, its reward and its parts; where the one part is the reward, the part alone."""
    task_of_N = np.array(tasks_N)
    for task in sorted(set(tasks_N)):
        rows_N = task_of_N == task
        columns = np.flatnonzero(scores.applies_NK[rows_N].any(axis=0)).tolist()
        parts = [_distribution(task, rows_N, scores, columns=[column]) for column in columns]
        if len(parts) != 1 or not np.array_equal(parts[0].values_N, scores.rewards_N[rows_N], equal_nan=True):
            yield _distribution(task, rows_N, scores, columns=columns, values_N=scores.rewards_N[rows_N])
        yield from parts


def _distribution(
    task: str, rows_N: np.ndarray, scores: Scores, *, columns: list[int], values_N: np.ndarray | None = None
) -> Distribution:
    """Of one column, or of the whole reward, whose values are then given."""
    cells = np.ix_(np.flatnonzero(rows_N), np.array(columns))
    return Distribution(
        task,
        scores.names[columns[0]] if values_N is None else TOTAL,
        scores.values_NK[cells][:, 0] if values_N is None else values_N,
        errors=int(scores.errors_NK[cells].any(axis=1).sum()),
        timeouts=int(scores.timeouts_NK[cells].any(axis=1).sum()),
        seconds=float(scores.seconds_NK[cells].sum()),
    )


def histogram(values_N: np.ndarray) -> str:
    """Ten bars from 0 to 1, or from the least to the largest value where some lie outside; the highest bar is full.

    >>> histogram(np.array([0.0, 0.0, 0.5, 1.0]))
    '\u2588    \u2584   \u2584'
    """
    if not len(values_N):
        return ""
    low, high = min(0.0, float(values_N.min())), max(1.0, float(values_N.max()))
    counts = np.histogram(values_N, bins=_BINS, range=(low, high))[0]
    return "".join(_BLOCKS[int(np.ceil(8 * count / counts.max()))] for count in counts)


def table(found: Sequence[Distribution]) -> str:
    """A line per distribution: mean, shares at 0 and 1, quantiles, histogram, counts, seconds."""
    names = [(d.task, d.part) for d in found]
    widths = [max(len(cell) for cell in column) for column in zip(("task", "part"), *names, strict=True)]
    head = "".join(f"{cell:>8}" for cell in ("mean", "at 0", "at 1", "p10", "p50", "p90"))
    counts = "".join(f"{cell:>9}" for cell in ("n", "errors", "timeouts", "seconds"))
    lines = [f"{'task':<{widths[0]}}  {'part':<{widths[1]}}{head}  {'histogram':<{_BINS}}{counts}"]
    for d in found:
        known_N = d.scored_N
        numbers = "".join(f"{value:>8.3f}" for value in _numbers(known_N)) if len(known_N) else f"{'-':>8}" * 6
        counts = f"{len(d.values_N):>9}{d.errors:>9}{d.timeouts:>9}{d.seconds:>9.1f}"
        line = f"{d.task:<{widths[0]}}  {d.part:<{widths[1]}}{numbers}  {histogram(known_N):<{_BINS}}{counts}"
        lines.append(line)
    return "\n".join(lines)


def _numbers(known_N: np.ndarray) -> list[float]:
    quantiles = np.quantile(known_N, (0.1, 0.5, 0.9)).tolist()
    return [float(known_N.mean()), float((known_N == 0).mean()), float((known_N == 1).mean()), *quantiles]


def summary(tasks_N: Sequence[str], scores: Scores) -> str:
    """The table, and below it the events with one message each."""
    events = [f"{event}: {count} (first: {scores.messages[event]})" for event, count in sorted(scores.events.items())]
    return "\n".join([table(list(distributions(tasks_N, scores))), *events])
