"""Points at which a robot can act: the share of them inside the answer's regions.

Formula: points in any region / points; with `least` 0 for fewer different points than that.
Bounds: 0 to 1.
Answer: one or more points, `[(x, y), ...]`, `[[x, y], ...]`, `[{"point_2d": [x, y]}, ...]`; a point said twice is one
point.
Space: the model's; the framework has converted the dataset's regions after the resize: a box, `{"polygon": [[x, y],
...]}`, a mask, or a list of them.
Unit: pixels or 0..N, as the space says.
Source: the pointing format of RoboBrain 2.0; share of points in the mask as in RoboPoint's benchmark.
Example: answer [100, 100, 200, 150]: `[(150, 120), (300, 120)]` 0.5, `[(150, 120)]` 1, `[]` 0.
"""

import numpy as np

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_regions
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.trajectories import parse_path

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", least: int = 1) -> float:
    """`least`: how many different points are asked for."""
    regions = gold_regions(sample)
    points = list(set(parse_path(extract_prediction(completion, answer=answer) or "") or ()))
    if not points or len(points) < least:
        return 0.0
    return float(np.any([region.contains(points) for region in regions], axis=0).mean())
