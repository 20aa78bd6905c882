"""Whether a point lies in a region: a box, a polygon or a mask.

Formula: 1 if the one point of the answer lies in any of the regions, else 0. `official`: the first of several points,
and the first region only. Where nothing in the picture is meant, 1 for a point of two negative coordinates.
Bounds: 0 or 1.
Answer: one point, `{"point_2d": [x, y]}`, `[x, y]`, `x y`; several points score 0.
Space: the model's; the framework has converted the dataset's region after the resize: a box, `{"polygon": [[x, y],
...]}`, COCO's `{"size": [height, width], "counts": ...}`, or a list of them. Edges of a box belong to it. The answer
`{"action": "refuse"}` says that nothing is meant.
Source: Vero's clicking type (`official`, which accepts a list that covers the picture if its first point hits);
OSWorld-G's polygons and refusals.
Example: answer [100, 100, 200, 150]: `[{"point_2d": [150, 120]}]` 1, `[201, 120]` 0, two points 0; a triangle [0, 0],
[10, 0], [0, 10]: `2 2` 1, `6 6` 0; answer {"action": "refuse"}: `[-1, -1]` 1, `[5, 5]` 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_regions
from mmrl.scoring.listings import parse_points
from mmrl.scoring.parse import AnswerFormat, extract_prediction

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)
REFUSED = {"action": "refuse"}


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", official: bool = False) -> float:
    """`official`: the first point and the first region."""
    refused = sample.answer == REFUSED
    regions = () if refused else gold_regions(sample)
    points = parse_points(extract_prediction(completion, answer=answer) or "")
    if points is None or len(points) == 0 or (len(points) > 1 and not official):
        return 0.0
    if refused:
        return float(max(points[0]) < 0)
    return float(any(region.contains(points[:1])[0] for region in regions[: 1 if official else None]))
