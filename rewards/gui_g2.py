"""How well a predicted box fits the answer's box, by two Gaussians (GUI-G2).

Formula: point + coverage. point = exp(-((dx / sx)^2 + (dy / sy)^2) / 2) of the centres, (sx, sy) = alpha * the
answer's width and height; coverage = exp(-Bhattacharyya distance) of the Gaussians (centre, alpha * size) of both
boxes.
Bounds: 0 to 2.
Answer: one box `x1 y1 x2 y2`, bare, as a list, or as JSON (`{"bbox_2d": [...]}`); none, several or reversed score 0.
Space: the model's; the framework has converted the dataset's box after the resize.
Unit: pixels or 0..N, as the space says; the score does not depend on it.
Source: GUI-G2 (alpha 0.5); `official` rounds both parts to 3 decimals as its code does. Add `format` for its third
part.
Example: answer [100, 100, 200, 140]: the same box 2; `110 104 210 144` 0.960789 + 0.990050; `150 120 250 160`, its
centre on the answer's corner, 0.367879 + 0.778801.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.clicks import gaussian_coverage, gaussian_point
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_geometry

GEOMETRY = "box"
BOUNDS = (0.0, 2.0)


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", alpha: float = 0.5, official: bool = False
) -> dict[str, float]:
    """`alpha`: standard deviation as a share of a box's side. `official`: parts rounded to 3 decimals."""
    gold = gold_geometry(sample, kind="box")
    box = parse_geometry(extract_prediction(completion, answer=answer) or "", kind="box")
    point = coverage = 0.0
    if box is not None and box[0] < box[2] and box[1] < box[3]:
        point, coverage = gaussian_point(box, gold, alpha=alpha), gaussian_coverage(box, gold, alpha=alpha)
    if official:
        point, coverage = round(point, 3), round(coverage, 3)
    return {"reward": point + coverage, "point": point, "coverage": coverage}
