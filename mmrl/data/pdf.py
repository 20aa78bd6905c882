"""A page of a PDF as a picture, drawn by PDFium."""

from __future__ import annotations

import functools
from importlib.metadata import version
from typing import Any

import numpy as np

from mmrl.data.file_bytes import on_disk, read_bytes
from mmrl.data.locations import PdfPage
from mmrl.data.source import check_file, media_errors
from mmrl.errors import MediaError

POINTS_PER_INCH = 72


@functools.cache
def renderer() -> str:
    """Name and version of what draws pages, as cache recipes record it."""
    return f"pypdfium2 {version('pypdfium2')}"


def render_page(page: PdfPage, *, max_pixels: int) -> np.ndarray:
    """uint8 RGB (H, W, 3) of a page on white, annotations and filled-in forms included, turned as the page says.

    A page of 612 x 792 points (US letter) at 72 dpi has 612 x 792 pixels. Raises MediaError: no PDF, encrypted, no such
    page, or more than max_pixels.
    """
    with media_errors(page):
        document = _open(page)
        try:
            return _render(document, page, max_pixels=max_pixels)
        finally:
            document.close()


def page_size(page: PdfPage, *, max_pixels: int) -> tuple[int, int]:
    """(width, height) in pixels of what `render_page` returns, without drawing it. Raises MediaError as that does."""
    with media_errors(page):
        document = _open(page)
        try:
            return _sized(document, page, max_pixels=max_pixels)[1]
        finally:
            document.close()


def _open(page: PdfPage) -> Any:
    import pypdfium2

    path = on_disk(page.file)
    if path is not None:
        check_file(path)
    try:
        return pypdfium2.PdfDocument(path if path is not None else read_bytes(page.file))
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise MediaError(page, "the PDF is encrypted; save it without a password") from error
        raise MediaError(page, f"not a readable PDF: {error}") from error


def _sized(document: Any, page: PdfPage, *, max_pixels: int) -> tuple[Any, tuple[int, int]]:
    """The page with its width and height in pixels."""
    count = len(document)
    if page.page > count:
        raise MediaError(page, f"the PDF has {count} page{'s' if count != 1 else ''}, counted from 1")
    document.init_forms()
    opened = document[page.page - 1]
    scale = page.dpi / POINTS_PER_INCH
    width, height = (round(side * scale) for side in opened.get_size())
    if width * height > max_pixels:
        reason = f"{width}x{height} pixels at {page.dpi} dpi, above the limit of {max_pixels}"
        raise MediaError(page, f"{reason}; lower the dpi")
    return opened, (width, height)


def _render(document: Any, page: PdfPage, *, max_pixels: int) -> np.ndarray:
    opened, _ = _sized(document, page, max_pixels=max_pixels)
    bitmap = opened.render(scale=page.dpi / POINTS_PER_INCH, rev_byteorder=True, draw_annots=True)
    pixels = np.array(bitmap.to_numpy()[:, :, :3])  # a copy: PDFium's buffer goes when the document is closed
    bitmap.close()
    return pixels
