"""Counting by pointing: one point on every thing.

Formula: F1 = 2 * H / (N + M) for N points and M things, H of them hit, each by a point of its own: a point inside the
thing's box, polygon or mask, or at most `radius` from its point. Nothing to point at, and no point: 1.
Bounds: 0 to 1.
Answer: JSON, `[{"point_2d": [x, y]}, ...]` or `[[x, y], ...]`; `[]` for none.
Space: the model's; the framework has converted the dataset's places after the resize: points bare or under `point_2d`,
regions under `bbox_2d`, `polygon` or as masks.
Unit: `radius` in the unit of the space.
Source: counting by points as in the detection and counting tasks that Perception-R1 describes without releasing them.
Example: things at [10, 10] and [50, 50], radius 5: `[[11, 10], [50, 48]]` 1, `[[11, 10]]` 0.666667, three points on
the first 0.4.
"""

import math

import numpy as np

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.gold_places import gold_points, gold_regions
from mmrl.scoring.listings import Point, parse_points, read_points
from mmrl.scoring.matching import f1, hungarian_pairs
from mmrl.scoring.parse import AnswerFormat, extract_prediction

GEOMETRY = "point"
BOUNDS = (0.0, 1.0)


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", radius: float | None = None
) -> dict[str, float]:
    """Also returns `points` and `things`, the counts. `radius`: of things given by points; must be set for them."""
    things, hits = _things(sample, radius)
    found = parse_points(extract_prediction(completion, answer=answer) or "")
    if found is None:
        return {"reward": 0.0, "points": 0.0, "things": float(things)}
    pairs = hungarian_pairs(np.array([hits(p) for p in found], dtype=np.float64).reshape(len(found), things))
    value = f1(len(pairs), predicted=len(found), gold=things)
    return {"reward": value, "points": float(len(found)), "things": float(things)}


def _things(sample: Sample, radius: float | None):
    """How many things there are, and a function that says of a point which of them it hits."""
    if isinstance(sample.answer, str) or read_points(sample.answer) is not None:
        points = gold_points(sample)
        if points and radius is None:
            raise bad_answer(sample, wanted="a list of regions, and points need the option `radius`")
        reach = radius or 0.0
        return len(points), lambda p: [math.dist(p, thing) <= reach for thing in points]
    regions = gold_regions(sample)

    def hits(point: Point) -> list[bool]:
        return [region.contains(point) for region in regions]

    return len(regions), hits
