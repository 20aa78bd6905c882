"""HTML and Markdown documents as pictures of pages, each with tests on its transcription.

Imported when documents are made: it needs the packages of the extra `documents`.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmrl.data.make_tasks.blocks import Document, read_document, visible_html
from mmrl.data.make_tasks.mining import LEAST_TESTS, mine, transcription, words_of
from mmrl.data.make_tasks.puzzle import Making, Puzzle, Source, UnusableError
from mmrl.data.make_tasks.typeset import PageContent, random_layout, typeset, write_pdf
from mmrl.errors import ConfigError
from mmrl.scoring import browser

LONGEST_SIDE = 1288  # pixels: olmOCR 2
LONGEST_TEXT = 500_000
_MARKDOWN = (".md", ".markdown")
_PROMPT = (
    "<image>\nTranscribe this page as Markdown in its natural reading order: tables as HTML, formulas as LaTeX between "
    r"\( and \) or \[ and \]. Leave out running heads, feet and page numbers. Write nothing else."
)


class Documents:
    """renderer: `pages` sets documents on paper in random layouts; `browser` shows HTML as Chromium does."""

    def __init__(self, sources: Sequence[Source], renderer: str) -> None:
        if renderer not in ("pages", "browser"):
            raise ConfigError(f"--renderer {renderer!r} is neither pages nor browser")
        if renderer == "browser" and browser.program() is None:
            raise ConfigError("--renderer browser needs Chromium (apt-get install chromium-headless-shell)")
        self.renderer = renderer
        self.documents_with: Counter[str] = Counter()
        for source in sources:
            try:
                self.documents_with.update(words_of(_read(source)))
            except UnusableError:
                continue  # it is reported when its own turn comes

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle | UnusableError]:
        document = _read(source)
        if document.left_out:
            yield UnusableError(f"left out of its pages: {_counted(document.left_out)}")
        if self.renderer == "browser":
            yield self._shown(source, document, making)
        else:
            yield from self._set(source, document, making)

    def _set(self, source: Source, document: Document, making: Making) -> Iterator[Puzzle | UnusableError]:
        """The document on paper: a PDF, of which each row shows one page."""
        layout = random_layout(making.rng, document)
        with tempfile.TemporaryDirectory() as scratch:
            pages, left_out = typeset(document, layout, scratch=Path(scratch))
            name = f"{source.name}/v{making.version}.pdf"
            pdf = making.media.new_file(name, lambda path: write_pdf(path, pages, layout, document))
        for reason in left_out:
            yield UnusableError(f"left out of its pages: {reason}")
        dpi = int(LONGEST_SIDE * 72 / layout.height)
        for number, page in enumerate(pages, start=1):
            yield self._puzzle(
                page, document, making, image={"image": pdf, "page": number, "dpi": dpi}, name=f"p{number}"
            )

    def _shown(self, source: Source, document: Document, making: Making) -> Puzzle | UnusableError:
        """The document in a browser's window, if all of it fits into one."""
        if source.path.suffix.lower() in _MARKDOWN:
            raise UnusableError("a browser shows HTML; Markdown needs --renderer pages")
        width = int(making.rng.integers(640, 1025))
        pixels_HW3 = browser.render_html(visible_html(_text(source)), width=width, height=2 * LONGEST_SIDE)
        if pixels_HW3 is None:
            raise UnusableError("Chromium did not render it within its limits")
        height = drawn_height(pixels_HW3)
        if height > LONGEST_SIDE:
            raise UnusableError(f"taller than one page of {LONGEST_SIDE} pixels; use --renderer pages, or divide it")
        image = making.media.picture(f"{source.name}/v{making.version}", pixels_HW3[: max(height + 8, width // 2)])
        # The browser shows header and footer too, in their places; no page number is printed.
        return self._puzzle(PageContent(document.blocks), document, making, image=image, name="")

    def _puzzle(
        self, page: PageContent, document: Document, making: Making, *, image: Any, name: str
    ) -> Puzzle | UnusableError:
        tests = mine(page, document, documents_with=self.documents_with, rng=making.rng)
        if not tests:
            where = f"page {name[1:]}: " if name else ""
            return UnusableError(f"{where}holds too little for {LEAST_TESTS} tests")
        return Puzzle(_PROMPT, tests, images=[image], columns={"transcription": transcription(page.blocks)}, name=name)


def drawn_height(pixels_HW3: np.ndarray) -> int:
    """Rows down to the last one that is not all of the bottom row's colour."""
    rows = np.nonzero((pixels_HW3 != pixels_HW3[-1, 0]).any(axis=(1, 2)))[0]
    return int(rows[-1]) + 1 if len(rows) else 0


def _text(source: Source) -> str:
    try:
        text = source.path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnusableError(f"not UTF-8 text ({error.reason} at byte {error.start})") from error
    if len(text) > LONGEST_TEXT:
        raise UnusableError(f"{len(text)} characters, at most {LONGEST_TEXT}")
    return text


def _read(source: Source) -> Document:
    return read_document(_text(source), is_markdown=source.path.suffix.lower() in _MARKDOWN)


def _counted(things: Sequence[str]) -> str:
    return ", ".join(f"{count} {thing}" for thing, count in sorted(Counter(things).items()))
