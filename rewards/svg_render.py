"""SVG by how its rendering looks beside the row's picture.

Formula: 0 unless a complete SVG without text elements renders; else (similarity + length_weight * length) /
(1 + length_weight), length = 1 - characters / 6000 between 0 and 1, without white space and comments. similarity: mse:
the share of the picture's variance that the rendering explains; ssim: structural similarity above that of an even
surface; both 0 for an even picture and 1 for an equal one.
Bounds: 0 to 1.
Answer: the last complete `<svg ..>..</svg>` after the thought. The row's first picture is the reference; in a row
without one, what its answer, an SVG, renders to.
Space: none; the rendering is stretched to the picture's shape.
Unit: seconds (`time_limit_s`), pixels (`longest_px`, at which pictures are compared).
Source: SGP-RL's render gate and length term (its text-image and image-image terms need encoders); resvg renders in the
sandbox, without files, addresses, fonts or entities.
Example: an SVG that draws the picture exactly 1, an even rectangle 0, one with a `<text>` element 0.
"""

from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.pictures import Measure, similarity
from mmrl.scoring.references import reference_picture
from mmrl.scoring.subjects import require_renderer
from mmrl.scoring.svg import extract_svg, is_allowed, length_term, render_svg

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
NEEDS_MEDIA = True


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    require_renderer("svg_render", "svg", options, timeout_s=timeout_s)


def score(
    completion: str,
    sample: Sample,
    *,
    measure: Measure = "mse",
    length_weight: float = 0.0,
    longest_px: int = 256,
    time_limit_s: float = 5.0,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    """`length_weight`: how much a short SVG counts beside likeness."""
    reference = reference_picture(sample, render_svg, longest=longest_px)
    svg = extract_svg(completion.rpartition("</think>")[2])
    if svg is None or not is_allowed(svg):
        return {"reward": 0.0, "renders": 0.0}
    picture = render_svg(svg, width=reference.shape[1], time_limit_s=time_limit_s)
    if picture is None:
        return {"reward": 0.0, "renders": 0.0}
    alike, short = similarity(picture, reference, measure=measure), length_term(svg)
    value = (alike + length_weight * short) / (1.0 + length_weight)
    return {"reward": value, "renders": 1.0, "similarity": alike, "length": short}
