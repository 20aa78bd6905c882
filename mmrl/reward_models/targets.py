"""What reward models are trained towards, and what is made of their answers. Pure.

Shapes: T times (frames), I intervals between them (T - 1), B a batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def rewind_targets(length: int, *, start: int, end: int, rewind: int | None = None) -> tuple[list[int], list[float]]:
    """ReWiND: frames and progress of the piece [start, end) of a clip of `length` frames, played back where asked.

    Progress of the k-th frame, from 1: k / (length - start), of what remained. rewind: after the piece come its frames
    in reverse, places 1 to rewind - 1 of the reversed piece, with their progress.

    >>> [round(p, 4) for p in rewind_targets(10, start=4, end=8)[1]]
    [0.1667, 0.3333, 0.5, 0.6667]
    >>> rewind_targets(10, start=0, end=6, rewind=4)
    ([0, 1, 2, 3, 4, 5, 4, 3, 2], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.5, 0.4, 0.3])
    """
    frames = list(range(start, end))
    progress = [(k + 1) / (length - start) for k in range(end - start)]
    if rewind is not None:
        frames += frames[::-1][1:rewind]
        progress += progress[::-1][1:rewind]
    return frames, progress


def arm_reconstruct(states_I: Sequence[int], *, scale: float | None = None) -> list[float]:
    """ARM: progress (T) from tri-state intervals (+1, 0, -1), backwards from 1 at completion.

    P_t = P_(t+1) - state * scale. scale: None makes the progress start at 0, which takes a positive net gain
    (ValueError otherwise).

    >>> [round(p, 3) for p in arm_reconstruct([1, 1, 0, -1, 1, 1], scale=1 / 3)]
    [0.0, 0.333, 0.667, 0.667, 0.333, 0.667, 1.0]
    """
    if scale is None:
        gain = sum(states_I)
        if gain <= 0:
            raise ValueError(f"intervals with a net gain of {gain} do not lead from 0 to completion; give a scale")
        scale = 1.0 / gain
    gained_T = np.concatenate([[0.0], np.cumsum(np.asarray(states_I, dtype=np.float64))])
    return (1.0 - (gained_T[-1] - gained_T) * scale).tolist()


def arm_gains(progress_T: Sequence[float], *, horizon: int, length_ratio: float) -> np.ndarray:
    """ARM: (P_(t+H) - P_t) * length of the sequence / mean length. The last H times have none.

    >>> [round(float(arm_gains([0.3, 0.5], horizon=1, length_ratio=r)[0]), 6) for r in (0.5, 1, 2)]
    [0.1, 0.2, 0.4]
    """
    progress = np.asarray(progress_T, dtype=np.float64)
    return (progress[horizon:] - progress[:-horizon]) * length_ratio


def arm_weights(gains_B: Sequence[float], *, eps: float = 1e-8) -> np.ndarray:
    """ARM: weights of advantage-weighted cloning, clip((gain - (mean - 2 std)) / (4 std + eps), 0, 1) in the batch.

    >>> arm_weights([-0.2, 0, 0.1, 0.2, 0.4]).round(6).tolist()
    [0.125, 0.375, 0.5, 0.625, 0.875]
    >>> arm_weights([0.0] * 9 + [10.0]).round(4)[[0, -1]].tolist()
    [0.4167, 1.0]
    """
    gains = np.asarray(gains_B, dtype=np.float64)
    return np.clip((gains - (gains.mean() - 2 * gains.std())) / (4 * gains.std() + eps), 0.0, 1.0)


def preferred_probability(first: float, second: float) -> float:
    """Bradley-Terry: the probability that the second of two is preferred, by their summed rewards.

    >>> round(preferred_probability(0.2, 0.8), 4)
    0.6457
    """
    return 0.5 * (1.0 + math.tanh((second - first) / 2.0))


def bradley_terry_loss(first: float, second: float, *, label: int) -> float:
    """Cross-entropy of a preference. label: 1 where the second was preferred, 0 where the first was.

    >>> [round(bradley_terry_loss(a, b, label=1), 4) for a, b in ((0, 0), (0.2, 0.8), (0.8, 0.2))]
    [0.6931, 0.4375, 1.0375]
    """
    margin = (second - first) * (1 if label == 1 else -1)
    return math.log1p(math.exp(-abs(margin))) + max(0.0, -margin)


def drs_reward(stage: int, value: float, *, stages: int) -> float:
    """DrS: (3 stage + tanh(value)) / (3 stages) - 2, value the discriminator of the stage (0 where it has none).

    Any state of a stage outscores every state of the stage before; success is stage = stages, with value 0: -1.

    >>> [round(drs_reward(k, f, stages=3), 4) for k, f in ((0, -5), (0, 0), (0, 5), (2, 0), (3, 0))]
    [-2.1111, -2.0, -1.8889, -1.3333, -1.0]
    """
    return (3 * stage + math.tanh(value)) / (3 * stages) - 2
