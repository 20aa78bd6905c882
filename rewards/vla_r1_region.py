"""Overlap of a predicted region for a robot's hand with the answer's, plus a share for the form (VLA-R1).

Formula: 0.9 task + 0.1 form. task: GIoU, not below 0; `official`: (GIoU + 1) / 2. Boxes are clipped to the picture.
form: 1 if the whole completion is `<think>..</think><output>JSON</output>`, else 0; no readable region is task 0.
Bounds: 0 to 1.
Answer: `<think>..</think><output>{"x": 0.5, "y": 0.5, "width": 0.2, "height": 0.2}</output>`, the region's centre and
size.
Space: the model's, VLA-R1's is 0..1 (`model.box_space: 0..1`); the dataset's answer is a box x1, y1, x2, y2, which the
framework has converted. In pixels the column `answer_extent` says the size of the picture.
Source: VLA-R1. Its (GIoU + 1) / 2 gives the whole picture more than a half, hence the default.
Example: answer [0.4, 0.4, 0.6, 0.6]: the same region 1; centre (0.6, 0.5) 0.4 (official 0.7); answer [0.7, 0.7, 0.9,
0.9]: centre (0.2, 0.2) 0.1 (official 0.15625); the same without a thought 0.9.
"""

from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.clicks import answer_extent
from mmrl.scoring.geometry import Box
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.literals import as_number
from mmrl.scoring.overlap import generalized_iou
from mmrl.scoring.robot_output import read_output

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)
FORM_SHARE = 0.1


def score(completion: str, sample: Sample, *, official: bool = False) -> dict[str, float]:
    """`official`: the source's task score."""
    width, height = answer_extent(sample)
    x1, y1, x2, y2 = gold_geometry(sample, kind="box")
    gold = x1 / width, y1 / height, x2 / width, y2 / height
    value, in_form = read_output(completion)
    region = _region(value, width, height)
    task = 0.0
    if region is not None:
        overlap = generalized_iou(region, gold)
        task = (overlap + 1) / 2 if official else max(0.0, overlap)
    return {"reward": (1 - FORM_SHARE) * task + FORM_SHARE * in_form, "task": task, "form": float(in_form)}


def _region(value: Any, width: float, height: float) -> Box | None:
    """The region as shares of the picture, clipped to it; None where it is none or has no area there."""
    numbers = (
        [as_number(value.get(key)) for key in ("x", "y", "width", "height")] if isinstance(value, dict) else [None]
    )
    x, y, w, h = numbers if len(numbers) == 4 else (None,) * 4
    if x is None or y is None or w is None or h is None:
        return None
    left, right = (min(max(v / width, 0.0), 1.0) for v in (x - w / 2, x + w / 2))
    top, bottom = (min(max(v / height, 0.0), 1.0) for v in (y - h / 2, y + h / 2))
    return (left, top, right, bottom) if left < right and top < bottom else None
