"""What a reward makes of vectors of frozen encoders: scales of a cosine, mixes, contrasts of goals. Pure.

Vectors have length 1, so a product is a cosine. Shapes: F frames, D values of a vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

Scale = Literal["half", "raw", "clipscore"]
GoalForm = Literal["clg", "vlm_rm", "lord", "roboclip"]


def half_cosine(cosine: float) -> float:
    """SGP-RL's map of a cosine of two encodings: (1 + cos) / 2.

    >>> round(half_cosine(0.28), 6), half_cosine(1.0), half_cosine(0.0), half_cosine(-1.0)
    (0.64, 1.0, 0.5, 0.0)
    """
    return (1.0 + cosine) / 2.0


def scaled(cosine: float, scale: Scale) -> float:
    """half: (1 + cos) / 2; raw: cos; clipscore: 2.5 max(cos, 0). Rounding beyond -1 and 1 is taken off.

    >>> round(scaled(0.28, "clipscore"), 6), scaled(-0.2, "clipscore"), scaled(1.0000001, "raw")
    (0.7, 0.0, 1.0)
    """
    cosine = min(1.0, max(-1.0, float(cosine)))
    return {"half": half_cosine(cosine), "raw": cosine, "clipscore": 2.5 * max(cosine, 0.0)}[scale]


def worst(scale: Scale) -> float:
    """What a cosine of -1 is on a scale: the score of nothing at all."""
    return scaled(-1.0, scale)


def sgp_mix(parts: Iterable[tuple[float, float]]) -> float:
    """SGP-RL's sum of weight * value over its parts (text-image, image-image, length), each value 0 to 1.

    >>> round(sgp_mix([(1.0, half_cosine(0.28)), (1.0, half_cosine(0.6))]), 6)
    1.44
    """
    return math.fsum(weight * value for weight, value in parts)


def layer_cosine(picture: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> float:
    """Mean over layers of the mean over places of the cosine of two feature maps (C, H, W): 1 for equal pictures.

    1 - this is the perceptual distance of LPIPS without its learned weights, halved.

    >>> one = np.array([[[1.0, 0.0]], [[0.0, 2.0]]])
    >>> round(layer_cosine([one], [one]), 6), round(layer_cosine([one], [one[::-1]]), 6)
    (1.0, 0.0)
    """
    return float(
        np.mean([(_unit_channels(a) * _unit_channels(b)).sum(axis=0).mean() for a, b in _pairs(picture, reference)])
    )


def patch_cosine(picture_CHW: np.ndarray, reference_CHW: np.ndarray, *, both_ways: bool = True) -> float:
    """Mean over the places of a feature map of the best cosine with any place of the other one.

    both_ways: the mean of this and of the same from the reference on; one way alone, one patch of the reference all
    over the picture is worth 1.

    >>> one, two = np.array([[[1.0, 1.0]], [[0.0, 0.0]]]), np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    >>> patch_cosine(one, two), patch_cosine(one, two, both_ways=False), patch_cosine(two, two[..., ::-1])
    (0.75, 1.0, 1.0)
    """
    flat = [_unit_channels(found).reshape(len(found), -1) for found in (picture_CHW, reference_CHW)]
    cosines_PR = flat[0].T @ flat[1]
    there = float(cosines_PR.max(axis=1).mean())
    return (there + float(cosines_PR.max(axis=0).mean())) / 2 if both_ways else there


def _pairs(picture: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(a, b) for a, b in zip(picture, reference, strict=True)]


def _unit_channels(map_CHW: np.ndarray) -> np.ndarray:
    return map_CHW / np.maximum(np.linalg.norm(map_CHW, axis=0, keepdims=True), 1e-10)


def contrast_score(*, cos_bad: float, cos_good: float, width: float = 0.03) -> float:
    """VLM-RL's contrasting language goals: 1 - clip(cos_bad - cos_good, 0, width) / width.

    1 where the picture is at least as near to the good goal, 0 where it is `width` nearer to the bad one.

    >>> [round(contrast_score(cos_bad=b, cos_good=g), 6) for b, g in ((0.20, 0.21), (0.22, 0.205), (0.24, 0.20))]
    [1.0, 0.5, 0.0]
    """
    return 1.0 - min(max(cos_bad - cos_good, 0.0), width) / width


def projected_goal(picture_D: np.ndarray, good_D: np.ndarray, base_D: np.ndarray, *, alpha: float = 0.5) -> float:
    """VLM-RM: 1 - |P (x - g)|^2 / 2, P = alpha d d^T / |d|^2 + (1 - alpha) I along d = goal - baseline.

    alpha 0 gives cos(x, g); 1 counts only what lies along the way from the baseline to the goal.

    >>> x, g, b = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([1.0, 0.0])
    >>> projected_goal(x, g, b, alpha=0.0), projected_goal(g, g, b)
    (0.0, 1.0)
    """
    difference, way = picture_D - good_D, good_D - base_D
    length = float(way @ way)
    along = way * float(way @ difference) / length if length > 0 else np.zeros_like(way)
    moved = alpha * along + (1 - alpha) * difference
    return 1.0 - float(moved @ moved) / 2.0


def goal_score(
    picture_D: np.ndarray,
    *,
    form: GoalForm,
    good_D: np.ndarray | None,
    bad_D: np.ndarray | None,
    width: float = 0.03,
) -> float:
    """One picture against a goal in words, and against its opposite.

    clg: VLM-RL's contrast, 0 to 1. vlm_rm: the bad goal is the baseline, -1 to 1. lord: 1 - cos(x, bad), 0 to 2.
    roboclip: cos(x, good), -1 to 1. Each form needs the goals it names.
    """
    if form == "lord":
        assert bad_D is not None
        return 1.0 - float(picture_D @ bad_D)
    assert good_D is not None
    if form == "roboclip":
        return float(picture_D @ good_D)
    assert bad_D is not None
    if form == "vlm_rm":
        return projected_goal(picture_D, good_D, bad_D)
    return contrast_score(cos_bad=float(picture_D @ bad_D), cos_good=float(picture_D @ good_D), width=width)


def nearness(last_D: np.ndarray, goal_D: np.ndarray, *, first_D: np.ndarray | None = None) -> float:
    """How near the last picture is to the goal: (1 + cos) / 2; with a first picture the share of its distance covered.

    The distance is 1 - cos. The share lies between -1 and 1; where the first picture is at the goal already it is 0,
    and negative for moving away.

    >>> goal, there, away = np.array([1.0, 0.0]), np.array([0.6, 0.8]), np.array([0.0, 1.0])
    >>> round(nearness(there, goal), 6), round(nearness(there, goal, first_D=away), 6)
    (0.8, 0.6)
    """
    cosine = min(1.0, max(-1.0, float(last_D @ goal_D)))
    if first_D is None:
        return half_cosine(cosine)
    start, end = 1.0 - float(first_D @ goal_D), 1.0 - cosine
    return min(1.0, max(-1.0, (start - end) / max(start, 1e-6)))
