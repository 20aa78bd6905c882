r"""A page as LaTeX: TexOCR's tests with a static probe in place of the compiler.

Formula: passed tests / tests that apply, as `texocr` has them; `probe` instead of `compiles`: braces balance,
environments nest and close, unescaped $ pair, every \ref has its \label and every \cite its key on the page or in the
reference.
Bounds: 0 to 1.
Answer: the body of a LaTeX page, bare, in `<answer>` tags or in a fenced block; BibTeX for pages of references.
Space: none.
Source: TexOCR (paper), with the thresholds and limits of `texocr`, which are ours. The probe is ours too, for machines
without a TeX engine. It lets through what only a compiler sees: unknown commands, wrong arguments, & outside tables.
Example: an unclosed environment fails the probe and, as it changes little else, scores one test less.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.latex_source import Source
from mmrl.scoring.texocr import (
    LIMITS,
    THRESHOLDS,
    check_shares,
    limits_of,
    page_of,
    page_values,
    passed_share,
    reference_of,
    static_probe,
)

BOUNDS = (0.0, 1.0)
_THRESHOLDS = {**{name: value for name, value in THRESHOLDS.items() if name != "compiles"}, "probe": 1.0}


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    check_shares(options["thresholds"], _THRESHOLDS, option="thresholds")
    check_shares(options["limits"], LIMITS, option="limits")


def score(
    completion: str,
    sample: Sample,
    *,
    thresholds: dict[str, float] | None = None,
    limits: dict[str, float] | None = None,
    official: bool = False,
) -> dict[str, float]:
    """`thresholds`: from which value on a test passes, by its name. `limits`: what counts as right within a test."""
    reference, page = reference_of(sample), page_of(completion)
    values = page_values(page, reference, limits_of(limits, official=official))
    values["probe"] = float(bool(page.strip()) and static_probe(Source(page), reference))
    reward = passed_share(values, {**_THRESHOLDS, **(thresholds or {})})
    return {"reward": reward, **{name: value for name, value in values.items() if value is not None}}
