"""Paths and their distances: of waypoints at equal times, and of drawn paths of any number of points. Pure.

Shape letters: N predicted points, M points of the answer, T points of both where they are taken at the same times.
A path is a list of `x, y` in one unit: metres of the ego frame (x ahead, y to the left), or shares of a picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mmrl.scoring.listings import Point, read_points
from mmrl.scoring.literals import read_literal

MOST_POINTS = 500
_ANGLE_WEIGHT, _LENGTH_WEIGHT = 0.25, 0.10
_LEAST_LENGTH = 1e-12
# The largest local cost that VLA-R1 counts on: the unit square's diagonal, a turn by pi, and a tenfold step.
VLA_R1_LIMIT = math.sqrt(2) + _ANGLE_WEIGHT * math.pi + _LENGTH_WEIGHT * math.log(10)


def parse_path(text: str, *, least: int = 1) -> tuple[Point, ...] | None:
    """The path that the whole text is: `[[x, y], ...]`, `(x, y), ...`, `[{"point_2d": [x, y]}, ...]`.

    None for anything else, for fewer than `least` points and for more than MOST_POINTS.
    """
    value = read_literal(text)
    points = read_points(value) if isinstance(value, list | tuple | dict) else None
    return points if points is not None and least <= len(points) <= MOST_POINTS else None


def displacements(predicted_T2: Sequence[Point], answer_T2: Sequence[Point]) -> np.ndarray:
    """Distance of the points of the same time, (T,). Raises ValueError for paths of different length."""
    predicted, answer = np.asarray(predicted_T2, float), np.asarray(answer_T2, float)
    if predicted.shape != answer.shape:
        raise ValueError(f"paths of {len(predicted)} and {len(answer)} points have no common times")
    return np.hypot(*(predicted - answer).T)


def displacement_errors(distance_T: np.ndarray) -> tuple[float, float]:
    """ADE and FDE, the mean and the last displacement.

    >>> displacement_errors(np.array([0.0, 0.5, 0.25]))
    (0.25, 0.25)
    """
    return float(distance_T.mean()), float(distance_T[-1])


def horizon_steps(count: int, *, dt: float) -> dict[int, int]:
    """Index of the point at 1, 2, 3, ... seconds, as far as `count` points, the first after `dt` seconds, reach.

    >>> horizon_steps(6, dt=0.5)
    {1: 1, 2: 3, 3: 5}
    """
    steps = {second: round(second / dt) - 1 for second in range(1, math.floor(count * dt + 1e-9) + 1)}
    return {second: step for second, step in steps.items() if step >= 0 and math.isclose((step + 1) * dt, second)}


def l2_at(distance_T: np.ndarray, *, dt: float) -> dict[int, float]:
    """UniAD's convention: the displacement at each full second.

    >>> l2_at(np.array([0, 0.2, 0.4, 0.3, 0.2, 0.1]), dt=0.5)
    {1: 0.2, 2: 0.3, 3: 0.1}
    """
    return {second: float(distance_T[step]) for second, step in horizon_steps(len(distance_T), dt=dt).items()}


def l2_until(distance_T: np.ndarray, *, dt: float) -> dict[int, float]:
    """ST-P3's and VAD's convention: the mean displacement up to each full second.

    >>> {s: round(v, 6) for s, v in l2_until(np.array([0, 0.2, 0.4, 0.3, 0.2, 0.1]), dt=0.5).items()}
    {1: 0.1, 2: 0.225, 3: 0.2}
    """
    steps = horizon_steps(len(distance_T), dt=dt)
    return {second: float(distance_T[: step + 1].mean()) for second, step in steps.items()}


def frechet(cost_NM: np.ndarray) -> float:
    """Discrete Frechet distance over any local costs: the least, over all ways to walk both paths forwards together,
    of the largest cost met on the way.
    """
    reached = np.maximum.accumulate(cost_NM[0])
    for row_M in cost_NM[1:]:
        previous, current = reached, np.empty_like(reached)
        current[0] = max(previous[0], row_M[0])
        for column in range(1, len(row_M)):
            best = min(previous[column], previous[column - 1], current[column - 1])
            current[column] = max(best, row_M[column])
        reached = current
    return float(reached[-1])


def distances(predicted_N2: Sequence[Point], answer_M2: Sequence[Point]) -> np.ndarray:
    """Distance of every point to every point, (N, M)."""
    predicted, answer = np.asarray(predicted_N2, float), np.asarray(answer_M2, float)
    return np.hypot(*np.moveaxis(predicted[:, None] - answer[None], -1, 0))


def hausdorff(distance_NM: np.ndarray) -> float:
    """The largest distance from a point of either path to the other path."""
    return float(max(distance_NM.min(axis=0).max(), distance_NM.min(axis=1).max()))


def rmse(distance_T: np.ndarray) -> float:
    """Root of the mean squared displacement."""
    return float(np.sqrt((distance_T**2).mean()))


def vla_r1_costs(predicted_N2: Sequence[Point], answer_M2: Sequence[Point]) -> np.ndarray:
    """VLA-R1's local costs, (N, M): distance + 0.25 * angle of the directions + 0.10 * |ln of the steps' lengths|.

    Direction: at an end that of its only step, between that of the sum of both unit steps, of the step before where
    they cancel. The angle is 0 where a point has no direction. Length: of the step after, at the end of the one before.
    """
    (direction_N2, length_N), (direction_M2, length_M) = _steps(predicted_N2), _steps(answer_M2)
    cosine_NM = np.clip(direction_N2 @ direction_M2.T, -1.0, 1.0)
    directed_NM = np.outer(np.abs(direction_N2).sum(axis=1), np.abs(direction_M2).sum(axis=1)) > 0
    angle_NM = np.where(directed_NM, np.arccos(cosine_NM), 0.0)
    stretch_NM = np.abs(np.log((length_N[:, None] + _LEAST_LENGTH) / (length_M[None] + _LEAST_LENGTH)))
    return distances(predicted_N2, answer_M2) + _ANGLE_WEIGHT * angle_NM + _LENGTH_WEIGHT * stretch_NM


def _steps(path_N2: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
    """Unit direction (0 for none) and step length at each point."""
    path = np.asarray(path_N2, float)
    if len(path) == 1:
        return np.zeros((1, 2)), np.zeros(1)
    step = np.diff(path, axis=0)
    length = np.hypot(*step.T)
    unit = _normalised(step)
    between = _normalised(unit[:-1] + unit[1:])
    cancelled = ~between.any(axis=1)
    between[cancelled] = unit[:-1][cancelled]
    return np.concatenate([unit[:1], between, unit[-1:]]), np.append(length, length[-1])


def _normalised(vectors_N2: np.ndarray) -> np.ndarray:
    length_N1 = np.hypot(*vectors_N2.T)[:, None]
    return np.divide(vectors_N2, length_N1, out=np.zeros_like(vectors_N2), where=length_N1 > _LEAST_LENGTH)
