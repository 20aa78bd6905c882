"""Yes or no.

Formula: 1 if the prediction says what the answer says, else 0.
Bounds: 0 or 1.
Answer: `yes`, `true`, `1` or `no`, `false`, `0`, alone, first with a comma or stop after it (`Yes, it does.`), or as
`the answer is yes`; both of them, or neither, score 0.
Space: none.
Source: EasyVideoR1's boolean type and its alias binary classification.
Example: answer `yes`: `<answer>True</answer>` 1, `Yes, both are red.` 1, `yes or no` 0, `There are no dogs` 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.truth import parse_truth

BOUNDS = (0.0, 1.0)
CHANCE = 0.5


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto") -> float:
    """1 or 0; a dataset's `true` and `false` are answers too."""
    said = parse_truth(str(sample.answer) if isinstance(sample.answer, bool) else gold_text(sample))
    if said is None:
        raise bad_answer(sample, wanted="yes or no, true or false, 1 or 0")
    return float(parse_truth(extract_prediction(completion, answer=answer) or "") == said)


def vote(completion: str, sample: Sample, *, answer: AnswerFormat = "auto") -> str | None:
    """`yes` or `no`."""
    said = parse_truth(extract_prediction(completion, answer=answer) or "")
    return None if said is None else "yes" if said else "no"
