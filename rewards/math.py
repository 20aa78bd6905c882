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

import functools
import itertools
import logging
import math
import re
from typing import Any

from math_verify import parse, verify

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.thoughts import is_explained

BOUNDS = (0.0, 1.0)

_LONGEST = 2000  # characters of an expression: what is longer takes sympy for ever and was never an answer
# Words parse as products of letters, so `blue` would equal `lube`.
_WORDS = re.compile(r"[A-Za-z]{3,}(?:\s+[A-Za-z]+)*")
# sympy works such numbers out digit by digit: 10^(10^10) has ten billion of them.
_MOST_FACTORIAL, _MOST_EXPONENT = 1000, 10_000.0
_DEEPEST = 10  # brackets inside brackets: at 10 the parser takes a second, at 20 more than a minute
_POWER = r"(?:\^|\*\*)"
_TOWER = re.compile(rf"\d+(?:\.\d+)?(?:{_POWER}[+-]*\d+(?:\.\d+)?)+")
_FACTORIAL = re.compile(r"(\d*)!")


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
    gold = _expressions(gold_text(sample))
    if not gold:
        raise bad_answer(sample, wanted="mathematics (for words use the reward exact_text)")
    prediction = extract_prediction(completion, answer=answer)
    found = _expressions(prediction) if prediction else ()
    if not found:
        return 0.0
    _quiet()
    right = verify(list(gold), list(found), float_rounding=float_rounding, timeout_seconds=None)
    return float(right) * (0.5 if explained and not is_explained(completion) else 1.0)


def _expressions(text: str) -> tuple[Any, ...]:
    """What math-verify reads, without its fallback to the bare text; none for words and for the too big."""
    if len(text) > _LONGEST or _WORDS.fullmatch(text.strip()) or _explodes(text):
        return ()
    _quiet()
    found = parse(f"\\boxed{{{text}}}", parsing_timeout=None)
    return tuple(found) if any(not isinstance(part, str) for part in found) else ()


def _explodes(text: str) -> bool:
    """Whether the text holds a power or factorial of more digits than anybody would write out, or deep brackets."""
    steps = ((c in "([{") - (c in ")]}") for c in text)
    if max(itertools.accumulate(steps, lambda depth, step: max(0, depth + step), initial=0)) > _DEEPEST:
        return True
    bare = re.sub(r"\\left|\\right|[{}()\s]", "", text)
    if "!!" in bare or re.search(rf"[!%]{_POWER}|{_POWER}\d+!", bare):
        return True
    if any(int(m[1] or 0) > _MOST_FACTORIAL for m in _FACTORIAL.finditer(bare)):
        return True
    return any(_is_too_high([float(n) for n in re.split(rf"{_POWER}[+-]*", m[0])]) for m in _TOWER.finditer(bare))


def _is_too_high(tower: list[float]) -> bool:
    """Whether an exponent of base ^ (exponent ^ ...) is above the largest that is worked out."""
    value = tower[-1]
    for base in reversed(tower[:-1]):
        if value > _MOST_EXPONENT:
            return True
        value = _MOST_EXPONENT + 1 if base > 1 and value * math.log10(base) > 5 else base**value
    return False


@functools.cache
def _quiet() -> None:
    """Silence the warning that time limits are off; the pool holds them."""
    for name in ("math_verify.parser", "math_verify.grader"):
        logging.getLogger(name).setLevel(logging.ERROR)
