"""Boxes by time: their overlap, and the claims a thought makes about named objects at times. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from mmrl.scoring.geometry import Box, box_iou

_DECIMALS = 3


def mean_box_iou(found: Mapping[float, Box], gold: Mapping[float, Box], *, common_only: bool = False) -> float:
    """Mean IoU over the gold times, a missing box counting 0; common_only: over the times that both have.

    Times are equal up to a thousandth, the decimals they are written with.

    >>> gold = {1.0: (0, 0, 10, 10), 2.0: (10, 0, 20, 10)}
    >>> found = {1.0: (0, 0, 10, 10)}
    >>> mean_box_iou(found, gold), mean_box_iou(found, gold, common_only=True)
    (0.5, 1.0)
    """
    boxes = {round(moment, _DECIMALS): box for moment, box in found.items()}
    pairs = [(boxes.get(round(moment, _DECIMALS)), box) for moment, box in gold.items()]
    total = sum(box_iou(box, wanted) for box, wanted in pairs if box is not None)
    count = sum(box is not None for box, _ in pairs) if common_only else len(pairs)
    return total / count if count else 0.0
