"""Mathematical equality of expressions, by math-verify.

Formula: 1 if the prediction equals the answer as mathematics, else 0.
Bounds: 0 or 1.
Answer: LaTeX or a plain expression (`\\frac{3}{4}`, `0.75`, `x = 3`, `\\{1, 2\\}`).
Space: none.
Source: math-verify, whose own signal-based time limits are off: they work only in a main thread; the scoring pool's
limit holds in every process. An answer that is no mathematics is an error of the data, never a full score.
Example: answer `\\frac{3}{4}`: `<answer>0.75</answer>` 1, `\\boxed{3/4}` 1, `0.7` 0, `three quarters` 0.
"""

import functools
import logging
import re
from typing import Any

from math_verify import parse, verify

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)

# Words parse as products of letters, so `blue` would equal `lube`.
_WORDS = re.compile(r"[A-Za-z]{3,}(?:\s+[A-Za-z]+)*")


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", float_rounding: int = 6) -> float:
    """`float_rounding`: decimals to which two inexact numbers must agree."""
    gold = _expressions(gold_text(sample))
    if not gold:
        raise bad_answer(sample, wanted="mathematics (for words use the reward exact_text)")
    prediction = extract_prediction(completion, answer=answer)
    found = _expressions(prediction) if prediction else ()
    if not found:
        return 0.0
    _quiet()
    return float(verify(list(gold), list(found), float_rounding=float_rounding, timeout_seconds=None))


def _expressions(text: str) -> tuple[Any, ...]:
    """What math-verify reads, without its fallback to the bare text; nothing for words."""
    if _WORDS.fullmatch(text.strip()):
        return ()
    _quiet()
    found = parse(f"\\boxed{{{text}}}", parsing_timeout=None)
    return tuple(found) if any(not isinstance(part, str) for part in found) else ()


@functools.cache
def _quiet() -> None:
    """Silence the warning that time limits are off; the pool holds them."""
    for name in ("math_verify.parser", "math_verify.grader"):
        logging.getLogger(name).setLevel(logging.ERROR)
