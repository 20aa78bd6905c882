"""Mathematical equality of expressions, by math-verify.

Formula: 1 if the prediction equals the answer as mathematics, else 0; with `explained` 0.5 for a right one without
text between thought and answer.
Bounds: 0 to 1.
Answer: LaTeX or a plain expression (`\\frac{3}{4}`, `0.75`, `x = 3`, `\\{1, 2\\}`) of at most 2000 characters.
Space: none.
Source: math-verify, whose own signal-based time limits are off: they work only in a main thread; the scoring pool's
limit holds in every process. An answer that is no mathematics is an error of the data, never a full score. Towers of
powers and factorials too big to be worked out (`10^{10^{10}}`, `9!!`) are no expression. `explained` is
OpenVLThinker's.
Example: answer `\\frac{3}{4}`: `<answer>0.75</answer>` 1, `\\boxed{3/4}` 1, `0.7` 0, `three quarters` 0.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.mathematics import are_equal, expressions
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.thoughts import is_explained

BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    float_rounding: int = 6,
    explained: bool = False,
) -> float:
    """`float_rounding`: decimals to which two inexact numbers must agree. `explained`: a right answer counts half
    unless some text stands between `</think>` and `<answer>`.
    """
    gold = expressions(gold_text(sample))
    if not gold:
        raise bad_answer(sample, wanted="mathematics (for words use the reward exact_text)")
    prediction = extract_prediction(completion, answer=answer)
    found = expressions(prediction) if prediction else ()
    right = are_equal(gold, found, float_rounding=float_rounding)
    return float(right) * (0.5 if explained and not is_explained(completion) else 1.0)
