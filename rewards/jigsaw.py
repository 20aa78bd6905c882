"""Putting K shuffled pieces back in order.

Formula: 1 if every piece is right; else partial * (pieces right) / K if the prediction is a permutation of 1..K;
else 0. `official: visual_jigsaw`: the released total, 0 without its format, else 0.2 + 1 (exact) or 0.2 * right / K
(K distinct integers and K > 4), minus 0.5 for a line repeated more than 3 times running; `visual_jigsaw_nothink` reads
the whole completion and has no 0.2. `official: ssl4rl`: (pieces right) / K, for any list.
Bounds: 0 to 1; visual_jigsaw -0.3 to 1.2, nothink -0.5 to 1; ssl4rl 0 to 1, where a constant list scores 1 / K.
Answer: the piece numbers in the original order, `5,1,3,7`; visual_jigsaw wants `<think>..</think>` and `\\boxed{..}`.
Space: none; pieces are numbered from 1 as shown.
Source: Visual Jigsaw (the default is its paper's accuracy term; add `format` with weight 0.2), SSL4RL.
Example: answer 5,1,3,7,9,2,4,8,6: exact 1, first two swapped 0.155556, nine times 5 scores 0 (ssl4rl 0.111111).
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_integers
from mmrl.scoring.parse import AnswerFormat, extract_prediction, has_format, parse_integers

BOUNDS = (-0.5, 1.2)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    partial: float = 0.2,
    official: Literal["no", "visual_jigsaw", "visual_jigsaw_nothink", "ssl4rl"] = "no",
) -> float:
    """`partial`: the most a wrong permutation can score. `official`: a source's released behaviour, flaws included."""
    gold = gold_integers(sample)
    if sorted(gold) != list(range(1, len(gold) + 1)):
        raise bad_answer(sample, wanted="a permutation of 1..K")
    prediction = parse_integers(extract_prediction(completion, answer=answer) or "") or ()
    if official == "visual_jigsaw_nothink":
        return _visual_jigsaw(completion, parse_integers(completion) or (), gold)
    if official == "visual_jigsaw":
        has_form = has_format(completion, style="think_boxed")
        return 0.2 + _visual_jigsaw(completion, prediction, gold) if has_form else 0.0
    if official == "ssl4rl":
        return _right(prediction, gold) / len(gold)
    if prediction == gold:
        return 1.0
    return partial * _right(prediction, gold) / len(gold) if sorted(prediction) == sorted(gold) else 0.0


def _right(prediction: tuple[int, ...], gold: tuple[int, ...]) -> int:
    return sum(p == g for p, g in zip(prediction, gold, strict=False))


def _visual_jigsaw(completion: str, prediction: tuple[int, ...], gold: tuple[int, ...]) -> float:
    accuracy = 0.0
    if prediction == gold:
        accuracy = 1.0
    elif len(gold) > 4 and len(set(prediction)) == len(gold):
        accuracy = 0.2 * _right(prediction, gold) / len(gold)
    return accuracy - (0.5 if _repeats(completion) else 0.0)


def _repeats(completion: str) -> bool:
    """Whether a line of 7 or more words stands more than 3 times in a row, without regard to case and empty lines."""
    lines = [line.strip().lower() for line in completion.splitlines() if line.strip()]
    runs = zip(lines, lines[1:], lines[2:], lines[3:], strict=False)
    return any(len(set(run)) == 1 and len(run[0].split()) >= 7 for run in runs)
