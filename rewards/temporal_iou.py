"""Overlap of a predicted span of time with the answer's span.

Formula: IoU = max(0, min(e) - max(s)) / (max(e) - min(s)); 0 for an empty or reversed span; with `threshold` 0 or 1.
Bounds: 0 to 1.
Answer: one span: `12.5 17.8`, `12.5 to 17.8`, `12.5s - 17.8s`, `0:10 - 0:20`, `{"time": [12.5, 17.8]}`,
`<t>12.5</t>s to <t>17.8</t>s`.
Space: the model's (seconds, or 0..N of the clip); the framework has converted the dataset's span.
Source: Time-R1; its denominator, the hull, equals the union wherever the spans overlap.
Example: answer [10, 18]: `12 to 20` 0.6, `5 to 30` 0.32, `18 to 10` 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.geometry import temporal_iou
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_geometry

GEOMETRY = "time"
BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", threshold: float | None = None) -> float:
    """`threshold`: score 1 from this IoU on and 0 below; None: the IoU itself."""
    gold = gold_geometry(sample, kind="time")
    prediction = parse_geometry(extract_prediction(completion, answer=answer) or "", kind="time")
    iou = temporal_iou(prediction, gold) if prediction is not None else 0.0
    return iou if threshold is None else float(iou >= threshold)
