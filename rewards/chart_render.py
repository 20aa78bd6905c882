"""Matplotlib code by how its chart looks beside the row's picture.

Formula: the likeness of the last figure to the picture, 0 where the code fails or draws none. mse: the share of the
picture's variance that the figure explains; ssim: structural similarity above that of an even surface.
Bounds: 0 to 1.
Answer: the last fenced Python block after the thought, or what stands in `<answer>` tags. The row's first picture is
the reference, else what its answer, such code, draws; the figure is stretched to its shape.
Space: none.
Unit: seconds (`time_limit_s`), pixels (`longest_px`, at which pictures are compared).
Source: chart-to-code work renders and compares; the measure is ours. The code runs in the sandbox with matplotlib,
NumPy and the standard library; `show` and `close` do nothing.
Example: the code that drew the picture 1, code that draws nothing 0.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.chart import render_chart
from mmrl.scoring.code_blocks import extract_code
from mmrl.scoring.pictures import Measure, fitted, similarity
from mmrl.scoring.references import reference_picture
from mmrl.scoring.subjects import require_renderer

BOUNDS = (0.0, 1.0)
NEEDS_MEDIA = True


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    require_renderer("chart_render", "chart", options, timeout_s=timeout_s)


def score(
    completion: str,
    sample: Sample,
    *,
    measure: Measure = "mse",
    longest_px: int = 512,
    time_limit_s: float = 8.0,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    reference = reference_picture(sample, render_chart, longest=longest_px)
    code = extract_code(completion)
    chart = render_chart(code, time_limit_s=time_limit_s) if code else None
    if chart is None:
        return {"reward": 0.0, "renders": 0.0}
    return {"reward": similarity(fitted(chart, longest=longest_px), reference, measure=measure), "renders": 1.0}
