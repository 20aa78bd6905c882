"""Boxes with confidences: how well they lie, and whether the sure ones are right.

Formula: R_iou + R_conf with R_iou = (sum of the IoU of pairs) / max(M, N) for N predictions of M answers; pairs are
taken greedily from the surest prediction on, IoU > 0.5. R_conf = (sum of the confidences of paired predictions, minus
that of the others) / max(M, N), not below 0. No boxes where there are none score 2. `official`: equal boxes count once,
R_conf is the mean of the confidence (paired) or 1 - confidence (not paired), and both terms are 1, before a box is
read, where math-verify finds the completion equal to the answer.
Bounds: 0 to 2.
Answer: `[{'Position': [x1, y1, x2, y2], 'Confidence': 0.9}, ...]`, or `bbox_2d` and `confidence`; without confidence
1; a confidence outside 0 to 1 makes the answer unreadable.
Space: the model's; the framework has converted the dataset's boxes after the resize.
Source: Visual-RFT's detection reward without its format term. There any wrong box of confidence 0 earns 1 of 2, and
math-verify reads one number of a list of boxes (the 20 of `[10, 20, 40, 60]`), so that another box that shares it is
right. Here `official` holds the completion against the converted boxes, to whole numbers, in the source's form, within
the bounds of the reward `math`: above 2000 characters there is no short cut.
Example: answer [0, 0, 10, 10] and [20, 20, 40, 40]: IoU 0.8 at 0.9 and a miss at 0.7 score 0.4 + 0.1 (official 0.4 +
0.6); the first alone 0.4 + 0.45 (official 0.4 + 0.9); one wrong box at 0 scores 0 (official 1). Answer
[10, 20, 40, 60]: `<answer>[{'Position': [90, 20, 95, 25], 'Confidence': 1}]</answer>` 0 (official 2).
"""

from collections.abc import Sequence

import numpy as np

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_detections
from mmrl.scoring.listings import Detection, parse_detections
from mmrl.scoring.matching import greedy_pairs, iou_matrix
from mmrl.scoring.mathematics import are_equal, expressions
from mmrl.scoring.parse import AnswerFormat, extract_prediction

GEOMETRY = "box"
BOUNDS = (0.0, 2.0)

_ABOVE_HALF = float(np.nextafter(0.5, 1.0)) + 1e-9


def score(
    completion: str, sample: Sample, *, answer: AnswerFormat = "auto", official: bool = False
) -> dict[str, float]:
    """Also returns `iou` and `confidence`, the two terms. `official`: the source's confidence term and short cut."""
    gold = gold_detections(sample)
    if official and are_equal(expressions(_as_in_the_source(gold)), expressions(completion)):
        return {"reward": 2.0, "iou": 1.0, "confidence": 1.0}
    found = parse_detections(extract_prediction(completion, answer=answer) or "")
    if found is None or any(not 0 <= _sure(d) <= 1 for d in found) or not (found and gold):
        each = float(found is not None and not found and not gold)
        return {"reward": 2 * each, "iou": each, "confidence": each}
    ranked = sorted(_distinct(found) if official else found, key=_sure, reverse=True)
    scores_NM = iou_matrix([d.box for d in ranked], [d.box for d in gold])
    pairs = greedy_pairs(scores_NM, at_least=_ABOVE_HALF)
    most = max(len(ranked), len(gold))
    right = {i for i, _ in pairs}
    iou = sum(float(scores_NM[pair]) for pair in pairs) / most
    if official:
        confidence = sum(_sure(d) if i in right else 1 - _sure(d) for i, d in enumerate(ranked)) / len(ranked)
    else:
        confidence = max(0.0, sum(_sure(d) if i in right else -_sure(d) for i, d in enumerate(ranked)) / most)
    return {"reward": iou + confidence, "iou": iou, "confidence": confidence}


def _as_in_the_source(gold: Sequence[Detection]) -> str:
    listed = ", ".join(f"{{'Position': {[round(v) for v in d.box]}, 'Confidence': 1}}" for d in gold)
    return f"<answer>[{listed}]</answer>"


def _sure(detection: Detection) -> float:
    return 1.0 if detection.confidence is None else detection.confidence


def _distinct(found: Sequence[Detection]) -> list[Detection]:
    return list({d.box: d for d in reversed(found)}.values())
