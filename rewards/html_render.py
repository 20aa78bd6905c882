"""HTML by how its page looks beside the row's picture.

Formula: the likeness of the rendered page to the picture, 0 where nothing renders. mse: the share of the picture's
variance that the page explains; ssim: structural similarity above that of an even surface.
Bounds: 0 to 1.
Answer: the last fenced HTML block after the thought, or what stands in `<answer>` tags. The row's first picture is the
reference, else what its answer, a page, renders to; the window has its shape.
Space: none.
Unit: seconds (`time_limit_s`), pixels (`width_px` of the window, `longest_px` at which pictures are compared).
Source: EasyVideoR1's alias for HTML code; the measure is ours. Chromium renders in the sandbox: scripts of the page
run, nothing is loaded from files or addresses.
Example: the page that the picture was taken of 1, an empty page 0.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.browser import render_html
from mmrl.scoring.code_blocks import extract_code
from mmrl.scoring.pictures import Measure, fitted, similarity
from mmrl.scoring.references import reference_picture
from mmrl.scoring.subjects import require_renderer

BOUNDS = (0.0, 1.0)
NEEDS_MEDIA = True


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    require_renderer("html_render", "html", options, timeout_s=timeout_s)


def score(
    completion: str,
    sample: Sample,
    *,
    measure: Measure = "mse",
    width_px: int = 1024,
    longest_px: int = 512,
    time_limit_s: float = 8.0,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    """`width_px`: of the window in which the page is laid out; its height follows the picture's shape."""
    reference = reference_picture(sample, render_html, longest=longest_px)
    html = extract_code(completion, languages=("html", "htm"))
    height = max(1, round(width_px * reference.shape[0] / reference.shape[1]))
    page = (
        render_html(html, width=width_px, height=min(height, 8 * width_px), time_limit_s=time_limit_s) if html else None
    )
    if page is None:
        return {"reward": 0.0, "renders": 0.0}
    return {"reward": similarity(fitted(page, longest=longest_px), reference, measure=measure), "renders": 1.0}
