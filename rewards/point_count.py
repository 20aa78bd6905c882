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

from collections.abc import Sequence

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
    found = parse_points(extract_prediction(completion, answer=answer) or "")
    hits_NM = _hits(sample, found or (), radius)
    things = hits_NM.shape[1]
    if found is None:
        return {"reward": 0.0, "points": 0.0, "things": float(things)}
    value = f1(len(hungarian_pairs(hits_NM)), predicted=len(found), gold=things)
    return {"reward": value, "points": float(len(found)), "things": float(things)}


def _hits(sample: Sample, found: Sequence[Point], radius: float | None) -> np.ndarray:
    """Whether (N, M) a point hits a thing, as 1 and 0."""
    if isinstance(sample.answer, str) or read_points(sample.answer) is not None:
        points = gold_points(sample)
        if points and radius is None:
            raise bad_answer(sample, wanted="a list of regions, and points need the option `radius`")
        points_N2, things_M2 = np.reshape(found, (-1, 1, 2)), np.reshape(points, (1, -1, 2))
        return (np.linalg.norm(points_N2 - things_M2, axis=2) <= (radius or 0.0)).astype(np.float64)
    points_N2 = np.reshape(found, (-1, 2))
    return np.stack([region.contains(points_N2) for region in gold_regions(sample)], axis=1).astype(np.float64)
