"""Whether a thought looks at the right place of a picture.

Formula: the best IoU of a box in `<box>..</box>` inside the thought with the answer's box, / the count of different
boxes there; 0 without one. `official`: the best IoU, whatever else is named, so that many boxes find any place.
Bounds: 0 to 1.
Answer: read from the thought; the dataset's answer is one box.
Space: the model's; the framework has converted the dataset's box after the resize.
Source: VisionCoach's thk_spatial of visual QA; there the best of all boxes counts.
Example: answer [0, 0, 10, 10]: a thought with [0, 0, 10, 8] 0.8, with [20, 20, 30, 30] beside it 0.4 (official 0.8).
"""

from mmrl.data.sample import Sample
from mmrl.scoring.geometry import box_iou
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.thoughts import thought, told_boxes

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, official: bool = False) -> dict[str, float]:
    """Also returns `boxes`, how many different ones the thought names."""
    gold = gold_geometry(sample, kind="box")
    boxes = {*told_boxes(thought(completion))}
    best = max((box_iou(box, gold) for box in boxes), default=0.0)
    return {"reward": best if official or not boxes else best / len(boxes), "boxes": float(len(boxes))}
