"""Step rewards from a few demonstrations on frozen features (Sermanet et al.). Pure.

Shapes: F frames, D features, S steps, J chosen features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEATURES = 32
SHARPNESS = 5.0
_LEAST_SD = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What the frames of one step of a task look like: chosen features, their means and standard deviations."""

    features_J: np.ndarray
    means_J: np.ndarray
    sds_J: np.ndarray

    def distance(self, frames_FD: np.ndarray) -> np.ndarray:
        """(F,): mean over the chosen features of ((s - mean) / sd)^2.

        >>> Step(np.array([0, 1]), np.zeros(2), np.ones(2)).distance(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]))
        array([0. , 0.5, 2.5])
        """
        return (((frames_FD[:, self.features_J] - self.means_J) / self.sds_J) ** 2).mean(axis=1)


def split_points(frames_FD: np.ndarray, *, steps: int, least: int = 2) -> list[int]:
    """Where the steps of a demonstration begin (the first at 0), so that features vary least inside each.

    Exact, by dynamic programming over all places. Each step has at least `least` frames. ValueError for too few frames.

    >>> split_points(np.array([[0.0], [0.1], [5.0], [5.1], [9.0], [9.0]]), steps=3)
    [0, 2, 4]
    """
    count = len(frames_FD)
    if count < steps * least:
        raise ValueError(f"{count} frames cannot be {steps} steps of {least} frames or more")
    sums = np.concatenate([np.zeros((1, frames_FD.shape[1])), np.cumsum(frames_FD, axis=0, dtype=np.float64)])
    squares = np.concatenate([[0.0], np.cumsum((frames_FD.astype(np.float64) ** 2).sum(axis=1))])
    best = [0.0] + [np.inf] * count
    came: list[list[int]] = []
    for _ in range(steps):
        now, origin = [np.inf] * (count + 1), [0] * (count + 1)
        for end in range(least, count + 1):
            starts = np.arange(0, end - least + 1)
            spread = squares[end] - squares[starts] - ((sums[end] - sums[starts]) ** 2).sum(axis=1) / (end - starts)
            totals = np.array(best)[starts] + spread
            origin[end] = int(np.argmin(totals))
            now[end] = float(totals[origin[end]])
        best = now
        came.append(origin)
    points, end = [], count
    for origin in reversed(came):
        end = origin[end]
        points.append(end)
    return points[::-1]


def feature_scores(inside_FD: np.ndarray, outside_FD: np.ndarray) -> np.ndarray:
    """(D,): 5 |mean+ - mean-| - (sd+ + sd-): how well each feature tells a step from the rest.

    >>> steady = np.array([[1.0], [1.0]]), np.array([[0.2], [0.2]])
    >>> feature_scores(*steady).round(6).tolist()
    [4.0]
    """
    return separation(inside_FD.mean(axis=0), outside_FD.mean(axis=0), inside_FD.std(axis=0), outside_FD.std(axis=0))


def separation(mean_in: np.ndarray, mean_out: np.ndarray, sd_in: np.ndarray, sd_out: np.ndarray) -> np.ndarray:
    """5 |mean+ - mean-| - (sd+ + sd-), of each feature.

    >>> round(float(separation(np.array(1.0), np.array(0.2), np.array(0.1), np.array(0.1))), 6)
    3.8
    """
    return SHARPNESS * np.abs(mean_in - mean_out) - (sd_in + sd_out)


def learn_steps(demonstrations: Sequence[np.ndarray], *, steps: int, features: int = FEATURES) -> list[Step]:
    """The steps of a task from demonstrations (F, D) each; frames of one step of all of them belong together."""
    bounds = [[*split_points(demo, steps=steps), len(demo)] for demo in demonstrations]
    learned = []
    for step in range(steps):
        parts = [(demo, slice(at[step], at[step + 1])) for demo, at in zip(demonstrations, bounds, strict=True)]
        inside = np.concatenate([demo[part] for demo, part in parts])
        outside = np.concatenate([np.delete(demo, part, axis=0) for demo, part in parts])
        chosen = np.argsort(-feature_scores(inside, outside), kind="stable")[:features]
        sds = np.maximum(inside[:, chosen].std(axis=0), _LEAST_SD)
        learned.append(Step(chosen, inside[:, chosen].mean(axis=0), sds))
    return learned


def step_rewards(steps: Sequence[Step], frames_FD: np.ndarray) -> np.ndarray:
    """(F, S): exp(-distance / 2), the likelihood of each frame under a step, measured from that of its mean; 0 to 1."""
    return np.stack([np.exp(-step.distance(frames_FD) / 2.0) for step in steps], axis=1)


def combined(rewards_S: Sequence[float]) -> float:
    """Sum over the steps from the second on of 2^(step - 1) R: later steps outweigh all earlier ones together.

    >>> [combined(r) for r in ((1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 0.5, 0.25))]
    [0.0, 2.0, 6.0, 2.0]
    """
    return float(sum(2.0**place * reward for place, reward in enumerate(rewards_S) if place > 0))
