"""Clicks and boxes on a screen against the boxes they should hit, all numbers in one space. Pure.

>>> in_box((200, 150), (100, 100, 200, 150)), in_box((200, 150), (100, 100, 200, 150), strict=True)
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError
from mmrl.scoring.geometry import Box, Size, parse_space
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.gold_places import gold_detections
from mmrl.scoring.listings import Point, read_detections
from mmrl.scoring.literals import as_numbers


def gold_boxes(sample: Sample) -> tuple[Box, ...]:
    """The answer's boxes, one or more, each with positive area; RewardError, naming the sample, for anything else."""
    boxes = tuple(found.box for found in gold_detections(sample))
    if not boxes:
        raise bad_answer(sample, wanted="a list of one or more boxes")
    return boxes


def boxes_in(value: Any) -> tuple[Box, ...]:
    """The boxes of a value, in order; empty where it holds none or something else."""
    return tuple(found.box for found in read_detections(value) or ())


def answer_extent(sample: Sample) -> Size | tuple[float, float]:
    """Width and height of the picture in the space of the answer.

    N x N in a space `0..N`; in pixels the column `answer_extent` says it. RewardError where neither does.
    """
    stated = as_numbers(sample.columns.get("answer_extent"), count=2)
    if stated is not None and min(stated) > 0:
        return stated[0], stated[1]
    try:
        space = parse_space(sample.answer_space or "")
    except ConfigError:
        space = None
    if space is None or space.kind != "share":
        raise bad_answer(
            sample, wanted="in a space 0..N, and the row has no column `answer_extent` (width and height, in its space)"
        )
    return space.scale, space.scale


def in_box(point: Sequence[float], box: Sequence[float], *, strict: bool = False) -> bool:
    """Whether the point lies in the box. strict: its edges do not belong to it."""
    if strict:
        return box[0] < point[0] < box[2] and box[1] < point[1] < box[3]
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def centre(box: Sequence[float]) -> Point:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def gaussian_point(predicted: Sequence[float], gold: Sequence[float], *, alpha: float) -> float:
    """exp(-((dx / sx)^2 + (dy / sy)^2) / 2) of the boxes' centres, with (sx, sy) = alpha * the gold box's size.

    Source: GUI-G2, alpha 0.5: a centre on the gold box's corner scores exp(-1) = 0.367879.
    """
    (px, py), (gx, gy) = centre(predicted), centre(gold)
    x = (px - gx) / (alpha * (gold[2] - gold[0]))
    y = (py - gy) / (alpha * (gold[3] - gold[1]))
    return math.exp(-(x * x + y * y) / 2)


def gaussian_coverage(predicted: Sequence[float], gold: Sequence[float], *, alpha: float) -> float:
    """exp(-BD), BD the Bhattacharyya distance of two axis-aligned Gaussians, centre and alpha * size of each box.

    Per axis, with s = (s_p^2 + s_g^2) / 2: BD = d^2 / (8 s) + ln(s / (s_p s_g)) / 2. 0 for a box without area.
    Source: GUI-G2. Boxes equal: 1; same centre and height, half as wide: 0.894427.
    """
    distance = 0.0
    for axis in (0, 1):
        sp, sg = alpha * (predicted[axis + 2] - predicted[axis]), alpha * (gold[axis + 2] - gold[axis])
        if sp <= 0:
            return 0.0
        mean = (sp * sp + sg * sg) / 2
        difference = centre(predicted)[axis] - centre(gold)[axis]
        # The logarithm of each factor, so that a box of extreme size under- or overflows nothing.
        distance += difference * difference / (8 * mean) + (math.log(mean) - math.log(sp) - math.log(sg)) / 2
    return math.exp(-distance)


def centre_decay(
    point: Sequence[float], box: Sequence[float], *, extent: Sequence[float], reach: float | None
) -> float:
    """1 - (d / reach)^2, not below 0; d is the distance to the box's centre with width and height of the picture as 1.

    reach None: the distance from the box's centre to the farthest corner of the picture, and 0 where d > 1 (SE-GUI).
    """
    cx, cy = (c / side for c, side in zip(centre(box), extent, strict=True))
    distance = math.hypot(point[0] / extent[0] - cx, point[1] / extent[1] - cy)
    if reach is None and distance > 1:
        return 0.0
    limit = math.hypot(max(cx, 1 - cx), max(cy, 1 - cy)) if reach is None else reach
    return max(0.0, 1 - (distance / limit) ** 2)


def has_collinear_triple(points: Sequence[Point], *, flatness: float) -> bool:
    """Whether three of the points lie on a line: twice their triangle's area is at most flatness * longest side^2.

    flatness 0 is exact up to 1e-8; 0.01 also finds a line that wobbles by a hundredth of its length. Two equal points
    are on a line with any third. Takes time cubic in the number of points: give it few.
    """
    for i, a in enumerate(points):
        for j, b in enumerate(points[:i]):
            for c in points[:j]:
                u, v = (b[0] - a[0], b[1] - a[1]), (c[0] - a[0], c[1] - a[1])
                longest = max(u[0] ** 2 + u[1] ** 2, v[0] ** 2 + v[1] ** 2, (u[0] - v[0]) ** 2 + (u[1] - v[1]) ** 2)
                if abs(u[0] * v[1] - u[1] * v[0]) <= max(1e-8, flatness * longest):
                    return True
    return False


def exploration_efficiency(count: int, rank: int | None) -> float:
    """AEPO's accuracy: 1 / sqrt(count * rank) where candidate `rank` of `count` (from 1) is the first hit; -1 / count
    where none is (rank None), -1 without candidates.

    >>> [round(exploration_efficiency(n, k), 6) for n, k in ((1, 1), (3, 2), (4, 4), (2, None), (0, None))]
    [1.0, 0.408248, 0.25, -0.5, -1.0]
    """
    if rank is None:
        return -1 / max(count, 1)
    return 1 / math.sqrt(count * rank)
