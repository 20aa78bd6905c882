"""Detecting things of named classes, scored as detection benchmarks score.

Formula: `ap_length`: AP * min(1, M / N) for N predictions of M answers; `ap`: COCO's AP, averaged over the answer's
classes and the IoU thresholds 0.5, 0.55, ..., 0.95; `ap50`: AP at IoU 0.5; `weighted_sum`: 0.7 * (sum of the IoU of
pairs with the right label) / M + 0.3 * (1 - (missed / M + superfluous / N) / 2), pairs taken from the highest IoU on,
down to 0.5. No boxes where there are none score 1.
Bounds: 0 to 1.
Answer: JSON in or out of a fence, `[{"bbox_2d": [..], "label": "dog", "confidence": 0.9}, ...]`; `None` or `[]` for
nothing. Without confidences the order of the list ranks the boxes.
Space: the model's; the framework has converted the dataset's boxes after the resize.
Source: VLM-R1's od_ap, od_ap50, odLength and weighted_sum. `ap` alone is nearly free of superfluous boxes at the end
of the list, so `ap_length` is the default; predictions of a class the answer lacks count in N.
Example: answer [0, 0, 10, 10] and [20, 20, 40, 40]: found with IoU 0.8 and 1 0.775743; two more boxes at the end
0.387871 (ap 0.775743); the first alone, weighted_sum 0.505.
"""

from collections.abc import Sequence
from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_detections
from mmrl.scoring.listings import Detection, parse_detections
from mmrl.scoring.matching import COCO_THRESHOLDS, best_first_pairs, iou_matrix, mean_average_precision, same_label
from mmrl.scoring.parse import AnswerFormat, extract_prediction

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)

Measure = Literal["ap_length", "ap", "ap50", "weighted_sum"]


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", measure: Measure = "ap_length") -> float:
    """`measure`: one of those of the formula."""
    gold = gold_detections(sample)
    found = parse_detections(extract_prediction(completion, answer=answer) or "")
    if found is None or not found or not gold:
        return float(found is not None and not found and not gold)
    if measure == "weighted_sum":
        return _weighted_sum(found, gold)
    precision = mean_average_precision(found, gold, thresholds=(0.5,) if measure == "ap50" else COCO_THRESHOLDS)
    return precision * (min(1.0, len(gold) / len(found)) if measure == "ap_length" else 1.0)


def _weighted_sum(found: Sequence[Detection], gold: Sequence[Detection]) -> float:
    scores_NM, same_NM = iou_matrix([d.box for d in found], [d.box for d in gold]), same_label(found, gold)
    pairs = best_first_pairs(scores_NM, at_least=0.5)
    overlap = sum(float(scores_NM[pair]) for pair in pairs if same_NM[pair]) / len(gold)
    missed, superfluous = 1 - len(pairs) / len(gold), 1 - len(pairs) / len(found)
    return 0.7 * overlap + 0.3 * (1 - (missed + superfluous) / 2)
