"""Blocks of a document on the pages of a PDF, in a layout that chance decides; no browser is needed.

ReportLab sets the type, matplotlib's mathtext draws formulas. A block is never broken over pages, so each page has an
exact transcription.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from mmrl.data.make_tasks.blocks import FORMULA, Block, Document, Run
from mmrl.data.make_tasks.puzzle import UnusableError

# Files of each family inside matplotlib: upright, bold, italic, both.
FAMILIES = {
    "DejaVuSerif": ("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    "DejaVuSans": ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    "STIX": ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
}
MONO = "DejaVuSansMono"
TABLE_SCALES = (0.9, 0.75, 0.6)  # of the font's size: the first at which a table fits
CELL_PADDING = 13.0  # points, both sides of a cell
MONO_WIDTH = 0.603  # of a character, as a share of the font's size
_HEADING_SIZES = (1.7, 1.45, 1.25, 1.1, 1.0, 1.0)
_FORMULA_DPI = 300


@dataclass(frozen=True)
class Layout:
    """width, height, margin, size (of the font) in points."""

    family: str
    width: float
    height: float
    margin: float
    size: float
    columns: int

    @property
    def column_width(self) -> float:
        return (self.width - 2 * self.margin - (self.columns - 1) * self.gap) / self.columns

    @property
    def column_height(self) -> float:
        return self.height - 2 * self.margin

    @property
    def gap(self) -> float:
        return 2.0 * self.size


@dataclass
class PageContent:
    """What one page shows. label: the page's number as it is printed."""

    blocks: list[Block] = field(default_factory=list)
    places: list[tuple[Any, float, float]] = field(default_factory=list)
    label: str = ""


def random_layout(rng: np.random.Generator, document: Document) -> Layout:
    """A paper, a font that has the document's characters, a size, one column or two."""
    characters = {c for block in document.blocks for c in _characters(block)}
    covering = [name for name in FAMILIES if not missing_characters(characters, name)] or ["DejaVuSans"]
    width, height = ((595.0, 842.0), (612.0, 792.0))[int(rng.integers(2))]
    columns = 1 if any(map(_is_wide, document.blocks)) else 1 + int(rng.integers(2))
    return Layout(
        family=covering[int(rng.integers(len(covering)))],
        width=width,
        height=height,
        margin=float(rng.integers(45, 72)),
        size=float(rng.integers(17, 24)) / 2,
        columns=columns,
    )


def _is_wide(block: Block) -> bool:
    """Whether half a page's width is too little: tables of more than 4 columns, code of more than 60 characters."""
    if block.cells:
        return max(cell.right for cell in block.cells.cells) > 4
    return block.kind == "code" and max(map(len, block.text.split("\n"))) > 60


def _characters(block: Block) -> set[str]:
    shown = "".join(run.text for run in block.runs if not run.math)
    cells = "".join(FORMULA.sub("", cell.text) for cell in block.cells.cells) if block.cells else ""
    return set(shown + cells) - {"\n", " "}


def missing_characters(characters: set[str], family: str) -> set[str]:
    known = _font(FAMILIES[family][0]).charToGlyph
    return {c for c in characters if ord(c) not in known}


@functools.cache
def _font(name: str) -> Any:
    """The face of a font file, registered with ReportLab."""
    import matplotlib
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont

    font = TTFont(name, Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf")
    pdfmetrics.registerFont(font)
    return font.face


@functools.cache
def _register(family: str) -> None:
    from reportlab.pdfbase import pdfmetrics

    files = FAMILIES[family]
    for name in (*files, MONO):
        _font(name)
    pdfmetrics.registerFontFamily(files[0], normal=files[0], bold=files[1], italic=files[2], boldItalic=files[3])


def typeset(document: Document, layout: Layout, *, scratch: Path) -> tuple[list[PageContent], list[str]]:
    """The pages, and why blocks were left out: a formula that cannot be drawn, characters without glyphs, too tall.

    scratch: a folder for pictures of formulas, needed until the pages are written.
    """
    _register(layout.family)
    setter = _Setter(layout, scratch)
    pages, left_out = [PageContent()], []
    column, used = 0, 0.0
    for block in document.blocks:
        try:
            flowable, height = setter.flowable(block)
        except UnusableError as error:
            left_out.append(str(error))
            continue
        follows = 4 * layout.size if block.kind == "heading" else 0.0  # no heading at the foot of a column
        if used and used + height + follows > layout.column_height:
            column, used = column + 1, 0.0
        if column == layout.columns:
            pages.append(PageContent())
            column = 0
        x = layout.margin + column * (layout.column_width + layout.gap)
        pages[-1].places.append((flowable, x, layout.height - layout.margin - used - height))
        pages[-1].blocks.append(block)
        used += height + 0.6 * layout.size
    for number, page in enumerate(pages, start=1):
        page.label = f"Page {number} of {len(pages)}"
    return [page for page in pages if page.blocks], left_out


def write_pdf(path: Path, pages: Sequence[PageContent], layout: Layout, document: Document) -> None:
    """The pages with running head and foot; the same arguments give the same bytes."""
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(layout.width, layout.height), invariant=1)
    for page in pages:
        canvas.setFont(FAMILIES[layout.family][0], 0.8 * layout.size)
        fits = int(layout.width / layout.size)
        canvas.drawCentredString(layout.width / 2, layout.height - layout.margin / 2, document.header[:fits])
        canvas.drawString(layout.margin, layout.margin / 2, document.footer[:fits])
        canvas.drawRightString(layout.width - layout.margin, layout.margin / 2, page.label)
        for flowable, x, y in page.places:
            flowable.drawOn(canvas, x, y)
        canvas.showPage()
    canvas.save()


class _Setter:
    """Turns blocks into what ReportLab draws."""

    def __init__(self, layout: Layout, scratch: Path) -> None:
        self.layout, self.scratch = layout, scratch
        self.regular, self.bold = FAMILIES[layout.family][:2]

    def flowable(self, block: Block) -> tuple[Any, float]:
        """What draws a block, and its height in a column. UnusableError where it cannot be drawn whole."""
        lost = missing_characters(_characters(block), self.layout.family)
        if lost:
            raise UnusableError(f"a block with characters that no font here has: {' '.join(sorted(lost)[:5])}")
        width, height = 0.0, 0.0
        for scale in TABLE_SCALES if block.kind == "table" else (1.0,):
            made = self._made(block, scale)
            width, height = made.wrap(self.layout.column_width, 1e6)
            if height <= self.layout.column_height and width <= self.layout.column_width + 0.5:
                return made, height
        raise UnusableError(f"a {block.kind} larger than a column: {width:.0f}x{height:.0f} points")

    def _made(self, block: Block, scale: float) -> Any:
        if block.kind == "table":
            return self._table(block, scale * self.layout.size)
        makers: dict[str, Callable[[Block], Any]] = {"rule": self._rule, "code": self._code}
        return makers.get(block.kind, self._paragraph)(block)

    def _style(self, name: str, **more: Any) -> Any:
        from reportlab.lib.styles import ParagraphStyle

        size = more.pop("fontSize", self.layout.size)
        font = more.pop("fontName", self.regular)
        return ParagraphStyle(name, fontName=font, fontSize=size, leading=1.35 * size, **more)

    def _paragraph(self, block: Block) -> Any:
        from reportlab.platypus import Paragraph

        size = self.layout.size
        if block.kind == "heading":
            style = self._style("heading", fontName=self.bold, fontSize=_HEADING_SIZES[block.level - 1] * size)
            return Paragraph(self._markup(block.runs, style.fontSize), style)
        if block.kind == "item":
            indent = (block.level + 1) * 1.8 * size
            style = self._style(
                "item", leftIndent=indent, bulletIndent=indent - 1.6 * size, bulletFontName=self.regular
            )
            label = "•" if block.label == "-" else block.label
            return Paragraph(self._markup(block.runs, size), style, bulletText=label)
        style = self._style("text", alignment=1 if block.kind == "formula" else 0)
        if block.kind == "formula":
            style.leading = self._formula(block.runs[0].text, 1.15 * size).height + 0.6 * size
            return Paragraph(self._markup(block.runs, 1.15 * size), style)
        return Paragraph(self._markup(block.runs, size), style)

    def _code(self, block: Block) -> Any:
        """As small as its longest line needs to fit, down to half the size of the text."""
        from reportlab.platypus import XPreformatted

        longest = max(map(len, block.runs[0].text.split("\n")))
        fits = self.layout.column_width / (MONO_WIDTH * longest)
        size = min(0.85 * self.layout.size, max(fits, 0.5 * self.layout.size))
        return XPreformatted(escape(block.runs[0].text), self._style("code", fontName=MONO, fontSize=size))

    def _rule(self, block: Block) -> Any:
        from reportlab.platypus import HRFlowable

        return HRFlowable(width="100%", thickness=0.7, spaceBefore=0, spaceAfter=0)

    def _table(self, block: Block, size: float) -> Any:
        from reportlab.lib import colors
        from reportlab.platypus import Paragraph, Table

        assert block.cells is not None
        rows, columns = (1 + max(place[side] for place in block.cells.places) for side in (0, 1))
        data: list[list[Any]] = [[""] * columns for _ in range(rows)]
        style: list[tuple[Any, ...]] = [
            ("GRID", (0, 0), (-1, -1), 0.5, colors.black),
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ]
        for cell in block.cells.cells:
            font = self.bold if cell.is_header else self.regular
            text = self._markup(_cell_runs(cell.text), size)
            data[cell.row][cell.column] = Paragraph(text, self._style("cell", fontName=font, fontSize=size))
            if cell.rows > 1 or cell.columns > 1:
                style.append(("SPAN", (cell.column, cell.row), (cell.right - 1, cell.bottom - 1)))
        return Table(data, colWidths=self._column_widths(block, size), style=style)

    def _column_widths(self, block: Block, size: float) -> list[float]:
        """Room for the longest word of each column; what is left goes to columns by their longest text."""
        assert block.cells is not None
        columns = 1 + max(column for _, column in block.cells.places)
        words, texts = [1] * columns, [1] * columns
        for cell in block.cells.cells:
            for column in range(cell.column, cell.right):
                longest = max(map(len, cell.text.split()), default=1)
                words[column] = max(words[column], longest // cell.columns)
                texts[column] = max(texts[column], min(len(cell.text) // cell.columns, 40))
        character = 0.7 * size
        needed = [character * word + CELL_PADDING for word in words]
        wanted = sum(character * max(text - word, 0) for text, word in zip(texts, words, strict=True))
        spare = max(0.0, min(self.layout.column_width - sum(needed), wanted))
        return [width + spare * text / sum(texts) for width, text in zip(needed, texts, strict=True)]

    def _markup(self, runs: Sequence[Run], size: float) -> str:
        return "".join(self._run(run, size) for run in runs).strip()

    def _run(self, run: Run, size: float) -> str:
        if run.math:
            drawn = self._formula(run.text, size)
            place = f'width="{drawn.width:.2f}" height="{drawn.height:.2f}" valign="{-drawn.depth:.2f}"'
            return f'<img src="{escape(str(drawn.path))}" {place}/>'
        text = escape(run.text).replace("\n", "<br/>")
        text = f'<font face="{MONO}">{text}</font>' if run.code else text
        for tag, applies in (("b", run.bold), ("i", run.italic), ("super", run.raised), ("sub", run.lowered)):
            text = f"<{tag}>{text}</{tag}>" if applies else text
        return text

    def _formula(self, tex: str, size: float) -> DrawnFormula:
        name = hashlib.sha256(f"{size:.3f} {tex}".encode()).hexdigest()[:24]
        drawn = draw_formula(tex, size, self.scratch / f"{name}.png")
        if drawn.width > self.layout.column_width:
            raise UnusableError(f"a formula wider than a column: {tex:.60}")
        return drawn


def _cell_runs(text: str) -> list[Run]:
    runs, position = [], 0
    for found in FORMULA.finditer(text):
        formula = next(group for group in found.groups() if group is not None).strip()
        runs += [Run(text[position : found.start()]), Run(formula, math=True)]
        position = found.end()
    return [*runs, Run(text[position:])]


@dataclass(frozen=True)
class DrawnFormula:
    """A picture of a formula: width, height and depth below the line in points."""

    path: Path
    width: float
    height: float
    depth: float


def draw_formula(tex: str, size: float, path: Path) -> DrawnFormula:
    """A PNG of a formula. UnusableError for TeX that mathtext does not know, such as environments."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import math_to_image
    from PIL import Image

    if "$" in tex or "\n" in tex:
        raise UnusableError(f"a formula of several lines: {tex:.60}")
    try:
        depth = math_to_image(
            f"${tex}$", str(path), prop=FontProperties(size=size), dpi=_FORMULA_DPI, format="png"
        )  # fmt: skip
    except ValueError as error:
        raise UnusableError(f"a formula that mathtext cannot draw: {tex:.60}") from error
    with Image.open(path) as image:
        width, height = (side * 72 / _FORMULA_DPI for side in image.size)
    return DrawnFormula(path, width, height, float(depth))
