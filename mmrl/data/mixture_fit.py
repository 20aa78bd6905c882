"""Which mixture of datasets to train on: a surrogate of the score, fitted to runs, and its best point (MoDoMoDo).

    score(w) = a + b'w + w'Cw     w: shares of the D datasets, on the simplex (w >= 0, sum 1); C symmetric
    fit      least squares with ridge * sum of squares of all coefficients but a; ridge 0: the solution of least norm
    linear   the same without C
    best     argmax of the surrogate on the simplex, from a grid of starts by projected gradient ascent

On the simplex the constant, linear and square terms are collinear (sum w = 1, and w_i^2 = w_i - sum_j w_i w_j), so
single coefficients mean nothing; the surrogate's values do, and they are what is used. Worked: (1,0) .40, (0,1) .45,
(.5,.5) .55, (.25,.75) .53, (.75,.25) .50 give the best mixture (.447, .553) at .5488, with a largest residual of .0037.

Source: MoDoMoDo (2505.24871): seed mixtures of single, exclude-one and all, a quadratic surrogate, its best point; its
code is not public and the details are of third parties. Ridge, projection and starts are ours.

Shape letters: R runs, D datasets, F features.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mmrl.errors import DataError

Form = Literal["quadratic", "linear"]
_STEPS, _STARTS = 2000, 4


@dataclass(frozen=True)
class RunRecord:
    """A run's mixture and scores. weights: by dataset, any positive scale. scores: by benchmark."""

    weights: Mapping[str, float]
    scores: Mapping[str, float]
    where: str = ""


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A fitted score over mixtures. coefficients_F: of `features`."""

    names: tuple[str, ...]
    form: Form
    ridge: float
    coefficients_F: np.ndarray
    residuals_R: np.ndarray

    def score(self, weights: Sequence[float] | np.ndarray) -> float:
        return float(features(np.asarray(weights, dtype=float)[None], self.form)[0] @ self.coefficients_F)

    def gradient(self, weights_D: np.ndarray) -> np.ndarray:
        count = len(self.names)
        gradient_D = self.coefficients_F[1 : 1 + count].copy()
        if self.form == "quadratic":
            for value, (i, j) in zip(self.coefficients_F[1 + count :], _pairs(count), strict=True):
                gradient_D[i] += value * weights_D[j]
                gradient_D[j] += value * weights_D[i]
        return gradient_D

    def best(self) -> np.ndarray:
        """The mixture of the highest score: (D,)."""
        found = [_ascend(self, start_D) for start_D in _starts(len(self.names))]
        return max(found, key=lambda weights_D: self.score(weights_D))


def read_records(path: Path) -> list[RunRecord]:
    """Runs from JSONL: {"weights": {"coco": 1, ..}, "scores": {"mmstar": 0.41, ..}} a line. DataError for another
    form.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
            weights, scores = ({str(k): float(v) for k, v in row[key].items()} for key in ("weights", "scores"))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            form = '{"weights": {dataset: number}, "scores": {benchmark: number}}'
            raise DataError(f"{where}: a run is {form} ({error})") from error
        if not scores or min(weights.values(), default=0) < 0 or not 0 < math.fsum(weights.values()) < math.inf:
            raise DataError(f"{where}: weights are not negative and not all 0, and there is a score; found {line:.120}")
        found.append(RunRecord(weights, scores, where))
    if not found:
        raise DataError(f"{path}: holds no run; write a line for each")
    return found


def fitted(records: Sequence[RunRecord], *, scores: Sequence[str] = (), form: Form, ridge: float) -> Surrogate:
    """The surrogate of the mean over these scores (empty: over all that the first run has).

    A dataset that a run does not name has weight 0 in it. DataError for a run without one of the scores.
    """
    names = tuple(dict.fromkeys(name for record in records for name in record.weights))
    wanted = tuple(scores) or tuple(records[0].scores)
    for record in records:
        if missing := [name for name in wanted if name not in record.scores]:
            raise DataError(f"{record.where}: no score {missing[0]!r}; it has: {', '.join(record.scores)}")
    weights_RD = np.array([[record.weights.get(name, 0.0) for name in names] for record in records])
    weights_RD /= weights_RD.sum(1, keepdims=True)
    scores_R = np.array([math.fsum(record.scores[name] for name in wanted) / len(wanted) for record in records])
    features_RF = features(weights_RD, form)
    coefficients_F = _solve(features_RF, scores_R, ridge=ridge)
    return Surrogate(names, form, ridge, coefficients_F, scores_R - features_RF @ coefficients_F)


def features(weights_RD: np.ndarray, form: Form) -> np.ndarray:
    """(R, F): 1, the shares, and for the quadratic form w_i w_j for i <= j."""
    parts = [np.ones((len(weights_RD), 1)), weights_RD]
    if form == "quadratic":
        parts += [(weights_RD[:, i] * weights_RD[:, j])[:, None] for i, j in _pairs(weights_RD.shape[1])]
    return np.concatenate(parts, 1)


def seed_mixtures(names: Sequence[str]) -> list[dict[str, float]]:
    """Mixtures to run first: each dataset alone, all but one, and all alike.

    >>> [list(mixture.values()) for mixture in seed_mixtures(["a", "b"])]
    [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    """
    alone = [[float(i == k) for i in range(len(names))] for k in range(len(names))]
    without = [[float(i != k) / (len(names) - 1) for i in range(len(names))] for k in range(len(names))]
    shares = [*alone, *(without if len(names) > 2 else []), [1 / len(names)] * len(names)]
    return [dict(zip(names, of, strict=True)) for of in shares]


def as_json(surrogate: Surrogate) -> dict[str, Any]:
    return {
        "datasets": list(surrogate.names),
        "form": surrogate.form,
        "ridge": surrogate.ridge,
        "coefficients": surrogate.coefficients_F.tolist(),
        "residuals": surrogate.residuals_R.tolist(),
    }


def read_surrogate(path: Path) -> Surrogate:
    """What `mmrl mixture fit` wrote."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        arrays = (np.array(row["coefficients"], dtype=float), np.array(row["residuals"], dtype=float))
        found = Surrogate(tuple(row["datasets"]), row["form"], float(row["ridge"]), *arrays)
        found.score([1 / len(found.names)] * len(found.names))
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"{path}: not a surrogate as `mmrl mixture fit` writes it ({error})") from error
    return found


def project(values_D: np.ndarray) -> np.ndarray:
    """The nearest point of the simplex (Duchi et al. 2008).

    >>> project(np.array([0.9, 0.5, -1.0])).round(4).tolist()
    [0.7, 0.3, 0.0]
    """
    sorted_D = np.sort(values_D)[::-1]
    excess_D = (np.cumsum(sorted_D) - 1) / np.arange(1, len(values_D) + 1)
    last = np.flatnonzero(sorted_D > excess_D)[-1]
    return np.maximum(values_D - excess_D[last], 0)


def _solve(features_RF: np.ndarray, scores_R: np.ndarray, *, ridge: float) -> np.ndarray:
    if ridge == 0:
        return np.linalg.lstsq(features_RF, scores_R, rcond=None)[0]
    penalty = np.diag([0.0] + [ridge] * (features_RF.shape[1] - 1))
    return np.linalg.solve(features_RF.T @ features_RF + penalty, features_RF.T @ scores_R)


def _pairs(count: int) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(count), 2))


def _starts(count: int) -> list[np.ndarray]:
    """Corners, the middle, middles of edges, and some points inside that are always the same."""
    corners = np.eye(count)
    edges = [(corners[i] + corners[j]) / 2 for i, j in itertools.combinations(range(count), 2)]
    inside = np.random.default_rng(0).dirichlet(np.ones(count), size=_STARTS * count)
    return [*corners, *edges, np.full(count, 1 / count), *inside]


def _ascend(surrogate: Surrogate, weights_D: np.ndarray) -> np.ndarray:
    """Projected gradient ascent with a step that the curvature bounds, until nothing moves."""
    steepest = max(1e-12, float(np.abs(surrogate.coefficients_F[1 + len(weights_D) :]).sum()) * 2)
    step = 1.0 / steepest if surrogate.form == "quadratic" else 1e6
    for _ in range(_STEPS):
        moved_D = project(weights_D + step * surrogate.gradient(weights_D))
        if np.abs(moved_D - weights_D).max() < 1e-12:
            break
        weights_D = moved_D
    return weights_D
