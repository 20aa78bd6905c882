"""A right letter that is shown where the answer is: video questions with grounding (NExT-GQA's Acc@GQA).

Formula: 1 if the letter is right and the span's intersection over prediction with one of the answer's spans is at least
`at`, else 0. Reported beside it: `accuracy` of the letter, and of the span the best `iop` and `iou` over the answer's
spans, each also from 0.3 and from 0.5 on (`iou_at_3`, ..).
Bounds: 0 or 1.
Answer: the letter in `<answer>`, one span in `<glue>`: `<answer>B</answer> <glue>[(2.5, 7.0)]</glue>`; of several spans
the first. The dataset's answer is `{"answer": "B", "spans": [[2, 7.5], ..]}`.
Space: the model's (seconds, or 0..N of the clip); the framework has converted the dataset's spans.
Source: NExT-GQA (Xiao et al. 2024), its eval_ground.py; there a moment (a span without length) inside an answer's span
has an intersection over prediction of 1, here 0. The form is VideoChat-R1's.
Example: answer B at [10, 20]: B at [14, 16] 1 (iop 1, iou 0.2), A there 0, B at [12, 22] 1 (iop 0.8), B at [30, 40] 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.geometry import temporal_iop, temporal_iou
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.gold_places import gold_spans
from mmrl.scoring.listings import glue_text, parse_spans
from mmrl.scoring.option_labels import labelled_options
from mmrl.scoring.parse import extract_prediction, parse_choice

GEOMETRY = "time"
BOUNDS = (0.0, 1.0)


def score(completion: str, sample: Sample, *, at: float = 0.5, options_column: str = "options") -> dict[str, float]:
    """`at`: the least intersection over prediction. `options_column`: the row's options."""
    options = labelled_options(sample, column=options_column)
    letters = tuple(options) or tuple("ABCDE")
    gold, spans = parse_choice(gold_text(sample), letters=letters), gold_spans(sample)
    if gold is None or not spans:
        raise bad_answer(sample, wanted=f"one of the letters {letters[0]} to {letters[-1]}, with spans")
    said = extract_prediction(completion, answer="tag") or ""
    is_right = parse_choice(said, letters=letters, options=tuple(options.values()) or None) == gold
    found = parse_spans(glue_text(completion))
    best = {
        name: max(measure(found[0], span) for span in spans) if found else 0.0
        for name, measure in (("iou", temporal_iou), ("iop", temporal_iop))
    }
    steps = {f"{name}_at_{step}": float(of >= step / 10) for name, of in best.items() for step in (3, 5)}
    return {"reward": float(is_right and best["iop"] >= at), "accuracy": float(is_right), **best, **steps}
