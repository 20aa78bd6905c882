"""When a thing is there, and where: a span, and boxes at times inside it.

Formula: 0.5 * temporal IoU + 0.5 * mean IoU of the boxes over the answer's times, a missing box counting 0.
`official`: the mean over the times that both have. `span_alone`: an answer without boxes is scored by its span.
Bounds: 0 to 1.
Answer: JSON, `{"time": [start, end], "boxes": {"3": [x1, y1, x2, y2], ...}}`; without `time` the first half is 0.
Space: boxes and times are in the model's; the framework has converted the dataset's (`original_px at seconds`).
Source: EasyVideoR1's spatial-temporal grounding; `span_alone` is how its evaluation treats answers without boxes.
Example: answer time [2, 6], boxes 2 and 4: all right 1; span right, one of two boxes given 0.75 (official 1).
"""

from mmrl.data.sample import Sample
from mmrl.scoring.geometry import temporal_iou
from mmrl.scoring.gold_places import gold_tube
from mmrl.scoring.listings import parse_tube
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.tubes import mean_box_iou

GEOMETRY = "tube"
BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    official: bool = False,
    span_alone: bool = False,
) -> dict[str, float]:
    """Also returns `temporal` and `spatial`, the two overlaps. `official`: average over the common times only.

    `span_alone`: a dataset's answer may lack boxes; the reward is then the temporal overlap.
    """
    gold = gold_tube(sample, with_span=True, may_lack_boxes=span_alone)
    found = parse_tube(extract_prediction(completion, answer=answer) or "")
    if found is None:
        return {"reward": 0.0, "temporal": 0.0, "spatial": 0.0}
    spatial = mean_box_iou(found.boxes, gold.boxes, common_only=official)
    temporal = temporal_iou(found.span, gold.span) if found.span and gold.span else 0.0
    reward = 0.5 * temporal + 0.5 * spatial if gold.boxes else temporal
    return {"reward": reward, "temporal": temporal, "spatial": spatial}
