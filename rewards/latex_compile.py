r"""Whether LaTeX compiles.

Formula: 1 if pdfTeX makes at least one page of it without an error, else 0.
Bounds: 0 or 1.
Answer: the body of a document, bare, in `<answer>` tags or in a fenced block; a document of its own if it begins with
`\documentclass`.
Space: none.
Unit: seconds (`time_limit_s`).
Source: TexOCR's compile test alone. A gate beside a reward for the content (`is_format: true`): plain text compiles.
Example: `$x^2$` 1, `$x^2` 0, `\begin{align}x\end{equation}` 0.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.sandbox.preflight import require_program, require_sandbox
from mmrl.scoring.tex_engine import INSTALL, PROGRAMS, compiles
from mmrl.scoring.texocr import page_of

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
KNOWN_HACKS = {
    "constant": "any text without special characters compiles; it is a gate beside a reward for the content",
    "echo": "as any text, the prompt compiles",
    "options": "as any text, a list of options compiles",
    "repeated": "as any text, an answer compiles however often it is repeated",
}


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    require_program(PROGRAMS, what="latex_compile", install=INSTALL)
    require_sandbox("latex_compile", options, timeout_s=timeout_s)


def score(completion: str, sample: Sample, *, time_limit_s: float = 8.0, allow_weak_sandbox: bool = False) -> float:
    page = page_of(completion)
    return float(bool(page.strip()) and compiles(page, time_limit_s=time_limit_s))
