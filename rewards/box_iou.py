"""Overlap of a predicted box with the answer's box.

Formula: IoU = intersection / union, continuous areas; `measure: squared` IoU^2; `measure: giou` (1 + GIoU) / 2, which
tells a near miss from a far one; with `threshold` 1 if the measure >= threshold, else 0.
Bounds: 0 to 1.
Answer: one box `x1 y1 x2 y2`, bare, as a list, or as JSON (`{"bbox_2d": [...]}`); none or several score 0.
Space: the model's; the framework has converted the dataset's box after the resize.
Source: VLM-R1 (its inclusive-pixel IoU equals this for boxes on whole pixels); the threshold form is Acc@0.5;
`squared` is Perception-R1's grounding reward; GIoU is Rezatofighi et al. 2019.
Example: answer [10, 10, 60, 60]: `20 20 70 70` 0.470588 (squared 0.221453, giou 0.707516), `10 10 60 60` 1, reversed
corners 0.
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.geometry import box_iou
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.overlap import generalized_iou
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_geometry

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    threshold: float | None = None,
    measure: Literal["iou", "giou", "squared"] = "iou",
) -> float:
    """`threshold`: score 1 from this overlap on and 0 below; None: the overlap itself. `measure`: the overlap."""
    gold = gold_geometry(sample, kind="box")
    prediction = parse_geometry(extract_prediction(completion, answer=answer) or "", kind="box")
    if prediction is None:
        overlap = 0.0
    elif measure == "giou":
        overlap = (1 + generalized_iou(prediction, gold)) / 2
    else:
        overlap = box_iou(prediction, gold) ** (2 if measure == "squared" else 1)
    return overlap if threshold is None else float(overlap >= threshold)
