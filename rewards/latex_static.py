r"""A page as LaTeX: TexOCR's tests with a static probe in place of the compiler.

Formula: passed tests / tests that apply, as `texocr` has them; `probe` instead of `compiles`: braces balance,
environments nest and close, unescaped $ pair, every \ref has its \label and every \cite its key on the page or in the
reference.
Bounds: 0 to 1.
Answer: the body of a LaTeX page, bare, in `<answer>` tags or in a fenced block; BibTeX for pages of references.
Space: none.
Source: TexOCR (paper); the probe is ours, for machines without a TeX engine. It lets through what only a compiler sees:
unknown commands, wrong arguments, & outside tables.
Example: an unclosed environment fails the probe and, as it changes little else, scores one test less.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError
from mmrl.scoring.latex_source import Source
from mmrl.scoring.texocr import THRESHOLDS, page_of, page_values, passed_share, reference_of, static_probe

BOUNDS = (0.0, 1.0)
_THRESHOLDS = {**{name: value for name, value in THRESHOLDS.items() if name != "compiles"}, "probe": 1.0}


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    if unknown := set(options["thresholds"] or ()) - set(_THRESHOLDS):
        raise ConfigError(f"thresholds of no test: {', '.join(sorted(unknown))}; tests: {', '.join(_THRESHOLDS)}")


def score(
    completion: str, sample: Sample, *, thresholds: dict[str, float] | None = None, official: bool = False
) -> dict[str, float]:
    """`thresholds`: from which value on a test passes, by its name."""
    reference, page = reference_of(sample), page_of(completion)
    values = page_values(page, reference, official=official)
    values["probe"] = float(bool(page.strip()) and static_probe(Source(page), reference))
    reward = passed_share(values, {**_THRESHOLDS, **(thresholds or {})})
    return {"reward": reward, **{name: value for name, value in values.items() if value is not None}}
