"""Several spans of time: how well they cover the answer's.

Formula: `union`: length of what both cover / length of what either covers, each second once; no span on either side 1.
`matched`: sum of the IoU of the Hungarian pairs / the greater count of spans.
Bounds: 0 to 1.
Answer: JSON, `[[5.2, 10.4], [12, 15]]`, `[(5.2, 10.4)]`, `{"spans": [...]}`, or one span a line, `5.2 to 10.4`; `[]`
for never. Empty and reversed spans cover nothing. `read: glue` takes the one `<glue>..</glue>` behind the thought,
so that `<answer>` can hold something else: the dataset's answer is then `{"answer": "B", "spans": [[5.2, 10.4]]}`.
Space: the model's (seconds, or 0..N of the clip); the framework has converted the dataset's spans.
Source: VideoChat-R1's grounded question answering (`union`, its `<glue>`); `matched` asks for the right number too.
Example: answer [1, 5], [2, 4]: `[[0, 3], [2, 4], [22, 25]]` 0.375; answer [0, 2], [4, 6]: `[[0, 6]]` 0.666667 (matched
0.166667).
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold_places import gold_spans
from mmrl.scoring.listings import glue_text, parse_spans
from mmrl.scoring.matching import hungarian_pairs, spans_matrix
from mmrl.scoring.overlap import spans_iou
from mmrl.scoring.parse import AnswerFormat, extract_prediction

GEOMETRY = "time"
BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    measure: Literal["union", "matched"] = "union",
    read: Literal["answer", "glue"] = "answer",
) -> float:
    """`measure`: whether seconds count, or spans. `read`: where the spans stand."""
    gold = gold_spans(sample)
    found = parse_spans(
        glue_text(completion) if read == "glue" else extract_prediction(completion, answer=answer) or ""
    )
    if found is None:
        return 0.0
    if measure == "union" or not found or not gold:
        overlap = spans_iou(found, gold)
        return float(not found and not gold) if overlap is None else overlap
    scores_NM = spans_matrix(found, gold)
    total = sum(float(scores_NM[pair]) for pair in hungarian_pairs(scores_NM))
    return total / max(len(found), len(gold))
