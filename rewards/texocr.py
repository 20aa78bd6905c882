r"""A page as LaTeX: TexOCR's nine tests, the last of which compiles it.

Formula: passed tests / tests that apply; a test applies if the reference page has what it tests. text: sentences found;
formulas, sections: aligned one to one; table: numbers of the longest one; citations, references: resolve as often as on
the page; similarity: 1 - edits / length; baseline: no rubbish; compiles: as the body of a minimal document.
Bounds: 0 to 1.
Answer: the body of a LaTeX page, bare, in `<answer>` tags or in a fenced block; BibTeX for pages of references.
Space: none.
Unit: seconds (`time_limit_s`, of the compiler).
Source: TexOCR (paper), which gives no numbers. Ours are the options `thresholds` (text, formulas, sections, citations
and similarity pass from 0.9 on, the others from 1) and `limits` (a table's numbers agree to 0.9, or to 0.6 with 0.9 of
those that occur once; a part of a formula counts from 0.8 of its tokens on, of a title from half). `official`:
any ordered part counts. A citation also resolves by a key that the reference page cites, for pages seldom have entries;
the paper wants it in the output's BibTeX. The column `anchors` lists sentences to find, `bib_entries` counts the
bibliography; without them the page's plain sentences, and its keys, are taken. pdfTeX runs in the sandbox.
Example: 7 of 9 tests passed: 0.777778.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.latex_source import Source
from mmrl.scoring.sandbox.preflight import require_program, require_sandbox
from mmrl.scoring.tex_engine import INSTALL, PROGRAMS, compiles
from mmrl.scoring.texocr import (
    LIMITS,
    THRESHOLDS,
    check_shares,
    limits_of,
    page_of,
    page_values,
    passed_share,
    reference_of,
)

BOUNDS = (0.0, 1.0)


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_shares(options["thresholds"], THRESHOLDS, option="thresholds")
    check_shares(options["limits"], LIMITS, option="limits")
    require_program(PROGRAMS, what="texocr", install=f"{INSTALL}, or use the reward latex_static")
    require_sandbox("texocr", options, timeout_s=timeout_s)


def score(
    completion: str,
    sample: Sample,
    *,
    thresholds: dict[str, float] | None = None,
    limits: dict[str, float] | None = None,
    official: bool = False,
    time_limit_s: float = 8.0,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    """`thresholds`: from which value on a test passes, by its name. `limits`: what counts as right within a test."""
    reference, page = reference_of(sample), page_of(completion)
    values = page_values(page, reference, limits_of(limits, official=official))
    body = Source(page).without_bibtex().strip() or r"\mbox{}"
    values["compiles"] = float(bool(page.strip()) and compiles(body, time_limit_s=time_limit_s))
    reward = passed_share(values, {**THRESHOLDS, **(thresholds or {})})
    return {"reward": reward, **{name: value for name, value in values.items() if value is not None}}
