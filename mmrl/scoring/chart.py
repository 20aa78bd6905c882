"""Matplotlib code that a model wrote, run in the sandbox: the picture of its last figure."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from mmrl.scoring.kept import kept
from mmrl.scoring.pictures import png_pixels
from mmrl.scoring.sandbox import Job, Limits, Result, Tree, package_trees, run
from mmrl.scoring.sandbox.python_runtime import python_script

_DRIVER = Path(__file__).with_name("sandbox") / "chart_driver.py"
_EMPTY_FIGURE = "import matplotlib.pyplot as plt\nplt.figure()\n"
_DPI = 100
_FIRST_START_S = 60.0


@kept(most=32)
def render_chart(code: str, *, time_limit_s: float = 8.0, memory_mb: int = 1500) -> np.ndarray | None:
    """uint8 RGB (H, W, 3) of the last figure that the code leaves, 100 dots per inch; None where it fails.

    Calls of `show` and `close` do nothing. Only matplotlib, NumPy and what they need can be imported.
    """
    result = _run(code, _font_list(), time_limit_s=time_limit_s, memory_mb=memory_mb)
    png = result.files.get("chart.png")
    return png_pixels(png) if result.ok and png is not None else None


def _font_list_name() -> str:
    from matplotlib.font_manager import FontManager

    return f"fontlist-v{FontManager.__version__}.json"


@functools.cache
def _font_list() -> tuple[tuple[str, bytes], ...]:
    """Matplotlib's list of fonts, made once per process in the sandbox; making it costs a second each time."""
    result = _run(_EMPTY_FIGURE, (), time_limit_s=_FIRST_START_S, memory_mb=1500)
    return tuple(item for item in result.files.items() if item[0] != "chart.png")


def _run(code: str, fonts: tuple[tuple[str, bytes], ...], *, time_limit_s: float, memory_mb: int) -> Result:
    trees, folder = package_trees("matplotlib")
    return run(
        Job(
            python_script(str(_DRIVER), str(_DPI)),
            files={"chart.py": code.encode("utf-8", "replace"), **dict(fonts)},
            reads=(Tree(_DRIVER), *trees),
            env={"PYTHONPATH": folder, "MPLCONFIGDIR": "."},
            collect=("chart.png", _font_list_name()),
            limits=Limits(wall_s=time_limit_s, memory_bytes=memory_mb * 1_000_000),
        )
    )
