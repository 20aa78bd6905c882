r"""A LaTeX formula by how KaTeX renders it.

Formula: 1 if both formulas become the same MathML, else 0. `official`: 1 if the answer's MathML is a part of the
prediction's.
Bounds: 0 or 1.
Answer: one formula, with or without `$..$`, `$$..$$`, `\(..\)`, `\[..\]` or a fenced LaTeX block around it. Spacing in
the source and braces that change nothing do not count; `\,`, `\left` and other commands that render do.
Space: none.
Source: olmOCR 2's math test, its first half (the part-of rule, which also takes the whole page for a formula); its
second half, neighbours of symbols on the laid out page, needs a browser. The answer must be one that KaTeX renders.
Example: answer `\frac{a}{b}`: `$\frac ab$` 1, `\frac{b}{a}` 0, `a / b` 0.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.katex import mathml, require_katex, same_formula
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
_FENCES = ("```latex", "```tex", "```math", "```")
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    require_katex("formula_match")


def score(completion: str, sample: Sample, *, answer: AnswerFormat = "auto", official: bool = False) -> float:
    """`official`: olmOCR's rule, by which a page that holds the formula among others matches."""
    gold = _bare(gold_text(sample))
    if mathml(gold) is None:
        raise bad_answer(sample, wanted="a formula that KaTeX renders")
    prediction = extract_prediction(completion, answer=answer)
    return float(prediction is not None and same_formula(_bare(prediction), gold, contains=official))


def _bare(text: str) -> str:
    """The formula without what marks it as one."""
    inside = text.strip()
    fence = next((f for f in _FENCES if inside.startswith(f)), None)
    if fence is not None and inside.endswith("```"):
        inside = inside[len(fence) : -len("```")].strip()
    for opening, closing in _DELIMITERS:
        if inside.startswith(opening) and inside.endswith(closing) and len(inside) > len(opening + closing):
            return inside[len(opening) : -len(closing)].strip()
    return inside
