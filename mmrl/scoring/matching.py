"""Which prediction belongs to which answer: one-to-one matching, and the counts and averages made of it. Pure.

Shape letters: N predictions, M answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from mmrl.scoring.geometry import temporal_iou
from mmrl.scoring.listings import Detection, Span

Pairs = list[tuple[int, int]]
COCO_THRESHOLDS = tuple(round(0.5 + 0.05 * k, 2) for k in range(10))
_RECALLS = np.linspace(0.0, 1.0, 101)
_ROUNDING = 1e-9


def iou_matrix(predicted: Sequence[Sequence[float]], gold: Sequence[Sequence[float]]) -> np.ndarray:
    """IoU (N, M) of xyxy boxes with continuous areas; 0 where a box has no positive area.

    >>> iou_matrix([(0, 0, 10, 8)], [(0, 0, 10, 10), (50, 50, 60, 60)]).tolist()
    [[0.8, 0.0]]
    """
    a_N4 = np.asarray(predicted, dtype=np.float64).reshape(-1, 1, 4)
    b_M4 = np.asarray(gold, dtype=np.float64).reshape(1, -1, 4)
    sides_NM2 = np.minimum(a_N4[..., 2:], b_M4[..., 2:]) - np.maximum(a_N4[..., :2], b_M4[..., :2])
    inter_NM = sides_NM2.clip(min=0).prod(axis=-1)
    areas_N1 = (a_N4[..., 2:] - a_N4[..., :2]).clip(min=0).prod(axis=-1)
    areas_1M = (b_M4[..., 2:] - b_M4[..., :2]).clip(min=0).prod(axis=-1)
    # A box without area has an intersection of 0 with every other.
    union_NM = areas_N1 + areas_1M - inter_NM
    return np.divide(inter_NM, union_NM, out=np.zeros_like(inter_NM), where=inter_NM > 0)


def same_label(predicted: Sequence[Detection], gold: Sequence[Detection]) -> np.ndarray:
    """Whether (N, M) a prediction's label is the answer's, up to case and blanks; an answer without label fits all."""
    names_N = [_plain(d.label) for d in predicted]
    names_M = [_plain(d.label) for d in gold]
    return np.array([[m is None or n == m for m in names_M] for n in names_N], dtype=bool).reshape(
        len(names_N), len(names_M)
    )


def _plain(label: str | None) -> str | None:
    return None if label is None else " ".join(label.casefold().split())


def spans_matrix(predicted: Sequence[Span], gold: Sequence[Span]) -> np.ndarray:
    """Temporal IoU (N, M) of spans."""
    return np.array([[temporal_iou(p, g) for g in gold] for p in predicted]).reshape(len(predicted), len(gold))


def hungarian_pairs(scores_NM: np.ndarray, *, at_least: float = 0.0) -> Pairs:
    """The one-to-one pairs with the most pairs of a score of at_least (and above 0), and of those the highest sum.

    Predictions that fit nothing are left out first, so a long list of them costs no time.

    >>> hungarian_pairs(np.array([[0.9, 0.8], [0.85, 0.1]]), at_least=0.5)
    [(0, 1), (1, 0)]
    """
    allowed_NM = (scores_NM >= at_least - _ROUNDING) & (scores_NM > 0)
    rows, columns = np.flatnonzero(allowed_NM.any(axis=1)), np.flatnonzero(allowed_NM.any(axis=0))
    part, fits = scores_NM[np.ix_(rows, columns)], allowed_NM[np.ix_(rows, columns)]
    # Scores are at most 1, so no gain in score is worth a pair less.
    barred = 2.0 * (min(part.shape, default=0) + 1)
    chosen = linear_sum_assignment(np.where(fits, -part, barred))
    return sorted((int(rows[i]), int(columns[j])) for i, j in zip(*chosen, strict=True) if fits[i, j])


def best_first_pairs(scores_NM: np.ndarray, *, at_least: float) -> Pairs:
    """Pairs from the highest score of all on, each row and column once, down to `at_least`; of equal ones the first.

    >>> best_first_pairs(np.array([[0.8, 0.0], [0.9, 0.7]]), at_least=0.5)
    [(1, 0)]
    """
    rows, columns = np.nonzero(scores_NM >= at_least - _ROUNDING)
    best_first = np.argsort(-scores_NM[rows, columns], kind="stable")
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for i, j in zip(rows[best_first].tolist(), columns[best_first].tolist(), strict=True):
        if i not in pairs and j not in taken:
            pairs[i] = j
            taken.add(j)
    return list(pairs.items())


def greedy_pairs(scores_NM: np.ndarray, *, at_least: float = 0.0) -> Pairs:
    """Each prediction in turn takes the best answer that is still free and scores at_least (and above 0).

    >>> greedy_pairs(np.array([[0.9, 0.8], [0.85, 0.1]]), at_least=0.5)
    [(0, 0)]
    """
    rows, columns = np.nonzero((scores_NM >= at_least - _ROUNDING) & (scores_NM > 0))
    by_row_best_first = np.lexsort((-scores_NM[rows, columns], rows))
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for i, j in zip(rows[by_row_best_first].tolist(), columns[by_row_best_first].tolist(), strict=True):
        if i not in pairs and j not in taken:
            pairs[i] = j
            taken.add(j)
    return list(pairs.items())


def f1(matched: int, *, predicted: int, gold: int) -> float:
    """2 * matched / (predicted + gold): the harmonic mean of precision and recall; 1 where there is nothing to find.

    >>> round(f1(1, predicted=1, gold=2), 4), f1(0, predicted=0, gold=0)
    (0.6667, 1.0)
    """
    return 2 * matched / (predicted + gold) if predicted + gold else 1.0


def average_precision(scores_NM: np.ndarray, *, at_least: float) -> float:
    """COCO's AP of one class: N predictions from the surest on, matched greedily, precision at 101 recalls. M > 0.

    Two answers, predictions of IoU 0.8 and 1: AP is 1 up to the threshold 0.8 and 51 / 101 / 2 above it.

    >>> both = np.array([[0.8, 0.0], [0.0, 1.0]])
    >>> average_precision(both, at_least=0.8), round(average_precision(both, at_least=0.85), 6)
    (1.0, 0.252475)
    """
    count, total = scores_NM.shape
    right_N = np.zeros(count)
    right_N[[i for i, _ in greedy_pairs(scores_NM, at_least=at_least)]] = 1
    found_N = right_N.cumsum()
    recall_N, precision_N = found_N / total, found_N / np.arange(1, count + 1)
    best_N = np.maximum.accumulate(precision_N[::-1])[::-1]
    places = np.searchsorted(recall_N, _RECALLS - _ROUNDING)
    return float(np.append(best_N, 0.0)[places].mean())


def mean_average_precision(
    predicted: Sequence[Detection], gold: Sequence[Detection], *, thresholds: Sequence[float] = COCO_THRESHOLDS
) -> float:
    """AP averaged over the answer's classes and the thresholds. Without confidences the order of the list counts."""
    surest = sorted(predicted, key=lambda d: -(1.0 if d.confidence is None else d.confidence))
    values: list[float] = []
    for name in dict.fromkeys(_plain(d.label) for d in gold):
        wanted = [d.box for d in gold if _plain(d.label) == name]
        given = [d.box for d in surest if name is None or _plain(d.label) == name]
        scores_NM = iou_matrix(given, wanted)
        values += [average_precision(scores_NM, at_least=threshold) for threshold in thresholds]
    return sum(values) / len(values)
