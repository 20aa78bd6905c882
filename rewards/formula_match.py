r"""A LaTeX formula by how KaTeX renders it.

Formula: 1 if both formulas become the same MathML, else 0. `layout`: 1 too if a browser draws the same characters, in
the same fonts, sizes and order, each at the same height (5 px at letters of 24 px) and beside the same neighbours, and
the same lines over the same characters; spaces in a row then do not count. `official`: olmOCR's rule.
Bounds: 0 or 1.
Answer: one formula, with or without `$..$`, `$$..$$`, `\(..\)`, `\[..\]` or a fenced LaTeX block around it. Spacing in
the source and braces that change nothing do not count; `\,`, `\left` and other commands that render do.
Space: none.
Unit: seconds (`time_limit_s`, of the browser).
Source: olmOCR 2's math test. `official` is that test whole: 1 if the answer's MathML is a part of the prediction's, or
if each character of the answer has an equal one of its own in the prediction with the same nearest neighbours. It takes
the whole page for a formula, x_2 for x^2 and \sqrt{xy} for \sqrt{x}y, for neighbours tell nothing of heights and lines.
The answer must be one that KaTeX renders.
Example: answer `\frac{a}{b}`: `$\frac ab$` 1, `\frac{b}{a}` 0, `a / b` 0.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.formula_layout import laid_out_alike, require_layout
from mmrl.scoring.gold import bad_answer, gold_text
from mmrl.scoring.katex import mathml, require_katex, same_formula
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
_FENCES = ("```latex", "```tex", "```math", "```")
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    if options["layout"] or options["official"]:
        require_layout("formula_match", options, timeout_s=timeout_s)
    else:
        require_katex("formula_match")


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    layout: bool = False,
    official: bool = False,
    time_limit_s: float = 8.0,
    allow_weak_sandbox: bool = False,
) -> float:
    """`layout`: formulas that look alike match too. `official`: olmOCR's rule. Both need a browser."""
    gold = _bare(gold_text(sample))
    if mathml(gold) is None:
        raise bad_answer(sample, wanted="a formula that KaTeX renders")
    prediction = extract_prediction(completion, answer=answer)
    if prediction is None:
        return 0.0
    pair = (_bare(prediction), gold)
    if same_formula(*pair, contains=official):
        return 1.0
    by_layout = layout or official
    return float(by_layout and pair in laid_out_alike([pair], official=official, time_limit_s=time_limit_s))


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
