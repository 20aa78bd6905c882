"""Overlap of boxes beyond IoU, of sets of spans, and of points with regions. Pure; boxes are xyxy, areas continuous.

Shape letters: N points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmrl.scoring.geometry import Box, box_iou
from mmrl.scoring.listings import Point, Span, read_detections, read_points

LEAST_CORNERS = 3


def generalized_iou(a: Sequence[float], b: Sequence[float]) -> float:
    """GIoU = IoU - (hull - union) / hull, of -1 (far apart) to 1; -1 where either box has no positive area.

    Source: Rezatofighi et al. 2019. Unlike IoU it tells a near miss from a far one.

    >>> generalized_iou((0, 0, 10, 10), (0, 0, 10, 5)), generalized_iou((0, 0, 10, 10), (10, 0, 20, 10))
    (0.5, 0.0)
    >>> round(generalized_iou((0, 0, 1, 1), (9, 0, 10, 1)), 6)
    -0.8
    """
    areas = [max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1]) for box in (a, b)]
    if min(areas) <= 0:
        return -1.0
    iou = box_iou(a, b)
    union = sum(areas) / (1 + iou)
    hull = (max(a[2], b[2]) - min(a[0], b[0])) * (max(a[3], b[3]) - min(a[1], b[1]))
    return iou - (hull - union) / hull


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The union of spans as spans that do not touch, in order; empty and reversed ones are dropped.

    >>> merge_spans([(2, 4), (0, 3), (9, 9)])
    ((0, 4),)
    """
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return tuple(merged)


def spans_iou(a: Iterable[Span], b: Iterable[Span]) -> float | None:
    """Length of the intersection of two unions of spans over the length of their union; None where both are empty.

    >>> spans_iou([(0, 3), (2, 4), (22, 25)], [(1, 5), (2, 2), (2, 4)])
    0.375
    """
    left, right = merge_spans(a), merge_spans(b)
    total = _length(left) + _length(right)
    union = _length(merge_spans((*left, *right)))
    return (total - union) / union if union > 0 else None


def _length(spans: Iterable[Span]) -> float:
    return sum(end - start for start, end in spans)


@dataclass(frozen=True, slots=True)
class Region:
    """Where a point may lie: a box, a polygon's corners, or a mask with the runs of its cells, column by column.

    extent: width and height that a mask's grid covers, in the space of the points.
    """

    box: Box | None = None
    corners: tuple[Point, ...] = ()
    runs: tuple[int, ...] = ()
    mask_size: tuple[int, int] = (0, 0)
    extent: tuple[float, float] = (0.0, 0.0)

    def contains(self, points: Sequence[Point] | np.ndarray) -> np.ndarray:
        """Which (N) of the points lie inside; edges of a box belong to it."""
        points_N2 = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        x_N, y_N = points_N2[:, 0], points_N2[:, 1]
        if self.box is not None:
            x1, y1, x2, y2 = self.box
            return (x1 <= x_N) & (x_N <= x2) & (y1 <= y_N) & (y_N <= y2)
        return self._in_polygon(x_N, y_N) if self.corners else self._in_mask(x_N, y_N)

    def _in_polygon(self, x_N: np.ndarray, y_N: np.ndarray) -> np.ndarray:
        """By the even-odd rule: how many edges lie to the right of a point."""
        inside_N = np.zeros(len(x_N), dtype=bool)
        for (x1, y1), (x2, y2) in zip(self.corners, (*self.corners[1:], self.corners[0]), strict=True):
            if y1 != y2:
                crosses_N = (y1 > y_N) != (y2 > y_N)
                inside_N ^= crosses_N & (x_N < x1 + (y_N - y1) * (x2 - x1) / (y2 - y1))
        return inside_N

    def _in_mask(self, x_N: np.ndarray, y_N: np.ndarray) -> np.ndarray:
        (width, height), (extent_x, extent_y) = self.mask_size, self.extent
        columns_N, rows_N = np.floor(x_N * width / extent_x), np.floor(y_N * height / extent_y)
        on_grid_N = (columns_N >= 0) & (columns_N < width) & (rows_N >= 0) & (rows_N < height)
        runs_before_N = np.searchsorted(np.cumsum(self.runs), columns_N * height + rows_N, side="right")
        # Runs alternate between outside and inside, and begin outside.
        return on_grid_N & (runs_before_N % 2 == 1)


def read_region(value: Any) -> Region | None:
    """A region from JSON, its numbers already in the space of the points; None for what is none.

    A box (bare, or under bbox_2d, bbox or box), `{"polygon": [[x, y], ...]}`, or a COCO mask with the `extent` that
    the framework adds: `{"size": [height, width], "counts": text or list, "extent": [width, height]}`.
    """
    if isinstance(value, Mapping) and "counts" in value:
        return _mask(value)
    if isinstance(value, Mapping) and "polygon" in value:
        corners = read_points(value["polygon"])
        return Region(corners=corners) if corners is not None and len(corners) >= LEAST_CORNERS else None
    boxes = read_detections(value)
    return Region(box=boxes[0].box) if boxes is not None and len(boxes) == 1 else None


def _mask(value: Mapping[str, Any]) -> Region | None:
    try:
        height, width = (int(v) for v in value["size"])
        extent_x, extent_y = (float(v) for v in value.get("extent", (width, height)))
        counts = value["counts"]
        runs = decode_counts(counts) if isinstance(counts, str) else tuple(int(v) for v in counts)
    except (TypeError, ValueError):
        return None
    if sum(runs) != height * width or min(height, width, extent_x, extent_y) <= 0 or min(runs) < 0:
        return None
    return Region(runs=runs, mask_size=(width, height), extent=(extent_x, extent_y))


def decode_counts(text: str) -> tuple[int, ...]:
    """The runs of a COCO mask from its compressed text: 5 bits a character, from the fourth on as differences.

    Raises ValueError for text that is no such list.

    >>> decode_counts("04000")  # runs of 0, 4, 0, 0 + 4, 0 + 0
    (0, 4, 0, 4, 0)
    """
    runs: list[int] = []
    number = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise ValueError(f"{character!r} does not belong into a mask")
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift
        runs.append(number + (runs[-2] if len(runs) > 2 else 0))
        number = shift = 0
    if shift or any(run < 0 for run in runs):
        raise ValueError("the text of the mask ends inside a number or counts below 0")
    return tuple(runs)
