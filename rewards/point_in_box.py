"""Whether a click lands in the answer's box.

Formula: 1 if the one point of the answer lies in the box, or in any of several boxes, edges included; else 0.
Bounds: 0 or 1.
Answer: one point: `x y`, `(x, y)`, `[x, y]`, `{"point_2d": [x, y]}`, a tool call's `"coordinate"`; several points
score 0.
Space: the model's; the framework has converted the dataset's boxes after the resize.
Unit: pixels or 0..N, as the space says.
Source: POINTS-GUI-G (0..1, edges included; its reward is unpublished, this is its task's plain form); GTA1 (any box,
`integers`); UI-R1 and SE-GUI (edges included); GUI-R1 (`strict`).
Example: answer [100, 100, 200, 150]: `150 120` 1, `200 150` 1 (strict 0), `201 150` 0, `150.5 120` with integers 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.clicks import gold_boxes, in_box
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_geometry

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", strict: bool = False, integers: bool = False
) -> float:
    """`strict`: the box's edges do not count as inside. `integers`: a point with a fraction scores 0."""
    boxes = gold_boxes(sample)
    point = parse_geometry(extract_prediction(completion, answer=answer) or "", kind="point")
    if point is None or (integers and any(v != int(v) for v in point)):
        return 0.0
    return float(any(in_box(point, box, strict=strict) for box in boxes))
