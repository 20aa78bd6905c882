"""Overlap of a predicted span of time with the answer's span.

Formula: IoU = max(0, min(e) - max(s)) / (max(e) - min(s)); 0 for an empty or reversed span; `measure: iop` divides by
the length of the predicted span instead; with `threshold` 0 or 1.
Bounds: 0 to 1.
Answer: one span: `12.5 17.8`, `12.5 to 17.8`, `12.5s - 17.8s`, `0:10 - 0:20`, `{"time": [12.5, 17.8]}`,
`<t>12.5</t>s to <t>17.8</t>s`; several score 0 unless `several` takes one of them.
Space: the model's (seconds, or 0..N of the clip); the framework has converted the dataset's span.
Source: Time-R1; its denominator, the hull, equals the union wherever the spans overlap. `ends: sorted` with
`several: first` is how lmms-eval reads Charades-STA; `iop` is the intersection over prediction of NExT-GQA.
Example: answer [10, 18]: `12 to 20` 0.6 (iop 0.75), `5 to 30` 0.32, `18 to 10` 0 (sorted 1), `1 to 4, then 10 to 18` 0
(last 1).
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.geometry import temporal_iop, temporal_iou
from mmrl.scoring.gold import gold_geometry
from mmrl.scoring.listings import parse_span_among
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_geometry

GEOMETRY = "time"
BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    threshold: float | None = None,
    measure: Literal["iou", "iop"] = "iou",
    ends: Literal["written", "sorted"] = "written",
    several: Literal["none", "first", "last"] = "none",
) -> float:
    """`threshold`: score 1 from this overlap on and 0 below; None: the overlap itself. `measure`: the overlap; under
    `iop` any short span inside the answer's is right. `ends`: whether `18 to 10` is no span, or 10 to 18. `several`:
    which of several spans counts.
    """
    gold = gold_geometry(sample, kind="time")
    text = extract_prediction(completion, answer=answer) or ""
    found = parse_geometry(text, kind="time") if several == "none" else parse_span_among(text, take=several)
    if found is None:
        return 0.0
    span = sorted(found) if ends == "sorted" else found
    overlap = temporal_iou(span, gold) if measure == "iou" else temporal_iop(span, gold)
    return overlap if threshold is None else float(overlap >= threshold)
