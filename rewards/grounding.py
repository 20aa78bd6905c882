"""Finding several things: boxes matched one to one, missed and superfluous ones counted.

Formula: with TP the Hungarian pairs of IoU >= 0.5 and equal label, N predictions, M answers: (sum of the IoU of TP /
max(N, M) + 0.75 * F1 - 0.5 * P) / 1.75, not below 0, where P = 0.5 * (FP / N + FN / M). 1.75 is the most there is, so
only a full match scores 1. No boxes where there are none score 1. `official`: the mean IoU of TP, not divided by 1.75
but cut to 1, labels not compared, nothing to find is 0.
Bounds: 0 to 1.
Answer: JSON, `[{"bbox_2d": [x1, y1, x2, y2], "label": "dog"}, ...]`, `[]` for nothing; labels without case; an answer
without labels accepts any.
Space: the model's; the framework has converted the dataset's boxes after the resize.
Source: Vero's grounding type, after Perception-R1. Its cut hides a missed box behind a well placed one, and its mean
over TP leaves a grid of boxes over the whole picture a good part of the score.
Example: answer [0, 0, 10, 10] and [50, 50, 60, 60]: both 1; [0, 0, 10, 8] alone 0.442857 (official 1); [0, 0, 10, 6]
and [80, 80, 90, 90] 0.242857 (official 0.725); neither 0.
"""

import numpy as np

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_detections
from mmrl.scoring.listings import parse_detections
from mmrl.scoring.matching import f1, hungarian_pairs, iou_matrix, same_label
from mmrl.scoring.parse import AnswerFormat, extract_prediction

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)

_F1, _PENALTY = 0.75, 0.5


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    threshold: float = 0.5,
    labels: bool = True,
    official: bool = False,
) -> dict[str, float]:
    """Also returns `iou`, `f1` and `penalty`. `threshold`: least IoU of a pair. `labels`: whether they must agree."""
    gold = gold_detections(sample)
    found = parse_detections(extract_prediction(completion, answer=answer) or "")
    if found is None or not gold or not found:
        nothing = found is not None and not found and not gold and not official
        return {"reward": float(nothing), "iou": float(nothing), "f1": float(nothing), "penalty": 0.0}
    scores_NM = iou_matrix([d.box for d in found], [d.box for d in gold])
    if labels and not official:
        scores_NM = np.where(same_label(found, gold), scores_NM, 0.0)
    pairs = hungarian_pairs(scores_NM, at_least=threshold)
    overlaps = sum(float(scores_NM[pair]) for pair in pairs)
    iou = overlaps / (max(1, len(pairs)) if official else max(len(found), len(gold)))
    harmonic = f1(len(pairs), predicted=len(found), gold=len(gold))
    penalty = 0.5 * (2 - len(pairs) / len(found) - len(pairs) / len(gold))
    value = (iou + _F1 * harmonic - _PENALTY * penalty) / (1.0 if official else 1 + _F1)
    return {"reward": min(1.0, max(0.0, value)), "iou": iou, "f1": harmonic, "penalty": penalty}
