"""Overlap of a predicted box with the answer's box.

Formula: IoU = intersection / union, continuous areas; with `threshold` 1 if IoU >= threshold, else 0.
Bounds: 0 to 1.
Answer: one box `x1 y1 x2 y2`, bare, as a list, or as JSON (`{"bbox_2d": [...]}`); none or several score 0.
Space: the model's; the framework has converted the dataset's box after the resize.
Source: VLM-R1 (its inclusive-pixel IoU equals this for boxes on whole pixels); the threshold form is Acc@0.5.
Example: answer [10, 10, 60, 60]: `20 20 70 70` 0.470588, `10 10 60 60` 1, reversed corners 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.geometry import box_iou
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_geometry

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", threshold: float | None = None) -> float:
    """`threshold`: score 1 from this IoU on and 0 below; None: the IoU itself."""
    gold = gold_geometry(sample, kind="box")
    prediction = parse_geometry(extract_prediction(completion, answer=answer) or "", kind="box")
    iou = box_iou(prediction, gold) if prediction is not None else 0.0
    return iou if threshold is None else float(iou >= threshold)
