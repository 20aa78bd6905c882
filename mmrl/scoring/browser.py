"""HTML that a model wrote, rendered by headless Chromium in the sandbox."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path

import numpy as np

from mmrl.scoring.kept import kept
from mmrl.scoring.pictures import png_pixels
from mmrl.scoring.sandbox import Job, Limits, Result, Tree, run

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome", "chrome")
_FOLDERS = (
    "/usr/share/fonts",
    "/etc/fonts",
    "/usr/share/fontconfig",
    "/usr/share/mime",
    "/proc",
    "/sys/devices/system/cpu",
)
# One process, so that everything of it obeys one set of limits; its own sandbox needs powers that ours has given up.
_FLAGS = (
    "--headless", "--single-process", "--no-zygote", "--no-sandbox", "--disable-gpu", "--disable-software-rasterizer",
    "--disable-dev-shm-usage", "--disable-breakpad", "--disable-crash-reporter", "--disable-extensions",
    "--hide-scrollbars", "--force-device-scale-factor=1", "--user-data-dir=profile",
)  # fmt: skip
_LIMITS = {
    "memory_bytes": 2_000_000_000, "by_resident": True, "processes": 8, "files": 5000, "disk_bytes": 200_000_000,
    "output_bytes": 20_000_000,
}  # fmt: skip


@functools.cache
def program() -> Path | None:
    """The browser's real program: what Debian puts on PATH is a shell script that starts it."""
    for name in PROGRAMS:
        if (found := shutil.which(name)) is not None:
            packaged = Path("/usr/lib/chromium") / name
            return packaged if packaged.is_file() else Path(found).resolve()
    return None


@kept(most=16)
def render_html(html: str, *, width: int = 1024, height: int = 768, time_limit_s: float = 8.0) -> np.ndarray | None:
    """uint8 RGB (H, W, 3) of a window of that size on the page; None where it cannot be rendered within the limits.

    Scripts run. Nothing outside the page is loaded: no addresses, no files.
    """
    flags = (f"--window-size={width},{height}", "--screenshot=page.png")
    result = _opened(html, flags, time_limit_s=time_limit_s, collect=("page.png",))
    png = result.files.get("page.png")
    return png_pixels(png) if result.killed_by is None and png is not None else None


def page_source(html: str, *, time_limit_s: float = 8.0) -> str | None:
    """The source of a page after its scripts have run; None where it cannot be had within the limits."""
    result = _opened(html, ("--dump-dom",), time_limit_s=time_limit_s)
    source = result.text()
    # Its exit code says nothing: now and then a browser of one process falls over its own end.
    return source if result.killed_by is None and "</html>" in source else None


def _opened(html: str, flags: tuple[str, ...], *, time_limit_s: float, collect: tuple[str, ...] = ()) -> Result:
    chromium = program()
    assert chromium is not None, "preflight looks for it"
    job = Job(
        (str(chromium), *_FLAGS, *flags, "page.html"),
        files={"page.html": html.encode("utf-8", "replace")},
        reads=(Tree(chromium.parent), *(Tree(Path(f)) for f in _FOLDERS if Path(f).exists())),
        collect=collect,
        limits=Limits(wall_s=time_limit_s, **_LIMITS),
    )
    return run(job)
