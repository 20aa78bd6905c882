"""SVG that a model wrote: found in a completion, checked, and rendered by resvg in the sandbox."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from mmrl.scoring.kept import kept
from mmrl.scoring.pictures import png_pixels
from mmrl.scoring.sandbox import Job, Limits, Tree, package_trees, run
from mmrl.scoring.sandbox.python_runtime import python_script

_DRIVER = Path(__file__).with_name("sandbox") / "svg_driver.py"
_TAG = re.compile(r"<svg(?=[\s>/])|</svg\s*>", re.IGNORECASE)
# A caption written into the picture satisfies a text-image encoder without drawing anything.
_TEXT = re.compile(r"<\s*/?\s*(?:[^\s<>/:]+:)?(?:text|tspan|textPath|tref|foreignObject|altGlyph)\b", re.IGNORECASE)
_DECLARATION = re.compile(r"<!\s*(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_FULL_LENGTH = 6000


def extract_svg(text: str) -> str | None:
    """The last complete `<svg ..>..</svg>`, with the ones inside it; None where there is none.

    >>> extract_svg("first <svg></svg>, then <svg><svg></svg></svg> and <svg>")
    '<svg><svg></svg></svg>'
    """
    starts: list[int] = []
    found: tuple[int, int] | None = None
    for tag in _TAG.finditer(text):
        if not tag[0].startswith("</"):
            starts.append(tag.start())
        elif starts:
            start = starts.pop()
            # An unclosed `<svg` before it must not swallow what is complete.
            if found is None or start < found[0] or start >= found[1]:
                found = (start, tag.end())
    return text[found[0] : found[1]] if found is not None else None


def is_allowed(svg: str) -> bool:
    """Neither text elements nor declarations of a document type or of entities."""
    return _TEXT.search(svg) is None and _DECLARATION.search(svg) is None


@kept(most=64)
def render_svg(svg: str, *, width: int = 256, time_limit_s: float = 5.0) -> np.ndarray | None:
    """uint8 RGB (H, W, 3) on white, `width` pixels wide; None for what resvg cannot render within the limits.

    Nothing it names outside itself is loaded: no files, no addresses, no fonts. Entities are refused.
    """
    if _DECLARATION.search(svg):
        return None
    trees, folder = package_trees("resvg-py")
    job = Job(
        python_script(str(_DRIVER), str(width)),
        files={"picture.svg": svg.encode("utf-8", "replace")},
        reads=(Tree(_DRIVER), *trees),
        env={"PYTHONPATH": folder},
        collect=("picture.png",),
        limits=Limits(wall_s=time_limit_s),
    )
    result = run(job)
    png = result.files.get("picture.png")
    return png_pixels(png) if result.ok and png is not None else None


def length_term(svg: str) -> float:
    """1 - length / 6000, between 0 and 1; white space and comments do not count.

    >>> length_term("x" * 1500), length_term("<!-- note --> x" + "y" * 9000)
    (0.75, 0.0)
    """
    length = len("".join(_COMMENT.sub("", svg).split()))
    return min(1.0, max(0.0, 1.0 - length / _FULL_LENGTH))
