"""Which objects of a driving scene are named, by their points (DriveLM).

Formula: F1 = 2 m / (predicted + answer), m the most pairs of a predicted and an answer's point, each used once, with
|dx| + |dy| < radius; `official`: each predicted point in turn takes the nearest point left.
Bounds: 0 to 1.
Answer: points: `[[x, y], ...]` or `[{"point_2d": [x, y]}, ...]`; `official` also reads numbers with a decimal point,
in pairs, from any text (`<c1,CAM_BACK,1088.3,497.5>`).
Space: the model's; the framework has converted the dataset's list of points after the resize.
Unit: `radius` is in the space's unit; 16 are pixels of a 1600 x 900 picture.
Source: DriveLM challenge. Its accuracy is `exact_text`; its final score is
`mmrl.scoring.driving_metrics.drivelm_final`.
Example: one point 13 off 1, 18 off 0; two of three predicted points near the answer's two 0.8.
"""

import re

from mmrl.data.sample import Sample
from mmrl.scoring.driving_metrics import point_match_f1
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.listings import Point, read_points
from mmrl.scoring.literals import read_literal
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.trajectories import MOST_POINTS

GEOMETRY = "point"
BOUNDS = (0.0, 1.0)
_DECIMAL = re.compile(r"(?<![\d.])\d{1,6}\.\d{1,6}(?![\d.])")


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    radius: float = 16.0,
    official: bool = False,
) -> float:
    """`radius`: sum of both distances below which points are one. `official`: greedy matching, numbers in prose."""
    gold = read_points(sample.answer)
    if not gold:
        raise bad_answer(sample, wanted="a list of one or more points [x, y]")
    text = extract_prediction(completion, answer=answer) or ""
    points = read_points(read_literal(text))
    if points is None and official:
        points = _in_prose(text)
    if points is None or len(points) > MOST_POINTS:
        return 0.0
    return point_match_f1(points, gold, radius=radius, greedy=official)


def _in_prose(text: str) -> tuple[Point, ...]:
    numbers = [float(m[0]) for m in _DECIMAL.finditer(text)]
    return tuple(zip(numbers[::2], numbers[1::2], strict=False))
