"""Step rewards from a few demonstrations on frozen features (Sermanet et al.). Pure.

Shapes: F frames, D features, S steps, J chosen features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

FEATURES = 32
SHARPNESS = 5.0
_LEAST_SD, _SHARE_OF_SPREAD = 1e-3, 0.2


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What the frames of one step of a task look like: chosen features, their means and standard deviations.

    away: the median distance of the demonstrations' other frames, at which the step's reward is 0.
    """

    features_J: np.ndarray
    means_J: np.ndarray
    sds_J: np.ndarray
    away: float = 1.0

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
        # Few frames of few demonstrations hardly vary; a floor keeps another lighting from being infinitely far away.
        spread = np.concatenate([inside, outside])[:, chosen].std(axis=0)
        sds = np.maximum(np.maximum(inside[:, chosen].std(axis=0), _SHARE_OF_SPREAD * spread), _LEAST_SD)
        step = Step(chosen, inside[:, chosen].mean(axis=0), sds)
        learned.append(replace(step, away=float(np.median(step.distance(outside)))))
    return learned


def step_rewards(steps: Sequence[Step], frames_FD: np.ndarray) -> np.ndarray:
    """(F, S): 1 - distance / away of each frame and step, not below 0: 1 at the mean of the step, 0 at other frames."""
    return np.stack([np.maximum(0.0, 1.0 - s.distance(frames_FD) / max(s.away, 1e-9)) for s in steps], axis=1)


def in_order(rewards_FS: np.ndarray) -> list[float]:
    """The reward of each step at a frame of its own, in order, so that `combined` is largest; 0 for a step left out.

    A step is worth no more than those before it: the end of a task without its middle is not the task.

    >>> in_order(np.array([[1.0, 0.0], [0.2, 0.5], [0.9, 0.3]])), in_order(np.array([[0.0, 1.0], [1.0, 0.0]]))
    ([1.0, 0.5], [1.0, 0.0])
    """
    frames, steps = rewards_FS.shape
    prefixes = (placed(rewards_FS[:, :count]) for count in range(1, min(frames, steps) + 1))
    lists = ([*np.minimum.accumulate(prefix).tolist(), *[0.0] * (steps - len(prefix))] for prefix in prefixes)
    return max(lists, key=lambda found: (combined(found), found[0]))


def placed(rewards_FS: np.ndarray) -> list[float]:
    """All steps at frames in order with the largest weighted sum, later steps weighing more; their rewards."""
    frames, steps = rewards_FS.shape
    best = np.full((frames + 1, steps + 1), -np.inf)
    best[:, 0] = 0.0
    for f in range(1, frames + 1):
        for s in range(1, min(f, steps) + 1):
            best[f, s] = max(best[f - 1, s], best[f - 1, s - 1] + 2.0**s * rewards_FS[f - 1, s - 1])
    reached, f = [0.0] * steps, frames
    for s in range(steps, 0, -1):
        while best[f, s] == best[f - 1, s]:
            f -= 1
        f -= 1
        reached[s - 1] = float(rewards_FS[f, s - 1])
    return reached


def combined(rewards_S: Sequence[float]) -> float:
    """Sum over the steps from the second on of 2^(step - 1) R: later steps outweigh all earlier ones together.

    >>> [combined(r) for r in ((1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 0.5, 0.25))]
    [0.0, 2.0, 6.0, 2.0]
    """
    return float(sum(2.0**place * reward for place, reward in enumerate(rewards_S) if place > 0))
