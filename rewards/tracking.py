"""Following a thing through a clip: boxes at the asked times.

Formula: mean over the answer's times of IoU(predicted box, answer's box); a time without a predicted box counts 0.
`official`: the mean over the times that both have (0 where there is none), so one easy time is enough.
Bounds: 0 to 1.
Answer: JSON, `{"boxes": {"1": [x1, y1, x2, y2], "2.5": [...]}}`, the keys being the times; a prediction may be more
(its other times are ignored), what is no such JSON scores 0.
Space: boxes and times are in the model's; the framework has converted the dataset's (`original_px at seconds`).
Source: EasyVideoR1's tracking type.
Example: answer 1: [0, 0, 10, 10], 2: [10, 0, 20, 10]; both right 1, only 1 right 0.5 (official 1), 1 half 0.25.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_tube
from mmrl.scoring.listings import parse_tube
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.tubes import mean_box_iou

GEOMETRY = "tube"
BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", official: bool = False) -> float:
    """`official`: average over the common times only."""
    gold = gold_tube(sample)
    found = parse_tube(extract_prediction(completion, answer=answer) or "")
    return 0.0 if found is None else mean_box_iou(found.boxes, gold.boxes, common_only=official)
