"""Tables of a page written in HTML or Markdown: as grids of cells, and as trees to compare. Pure.

What is read is text, as the completion holds it; a markup error is read as browsers read it (lxml's HTML parser).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from lxml import html
from markdown_it import MarkdownIt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist

from mmrl.scoring.text_distance import clean_text
from mmrl.scoring.tree_distance import Postorder, tree_distance

MAX_TEXT = 100_000  # characters of a page that is read: ten full ones, and Markdown's parser is quadratic in open marks
MAX_SPAN = 1000  # HTML's own limit on colspan; of rowspan too, so that a typed 10**9 is no memory fault
MAX_NODES = 5000  # of the tree of a table: a page's has hundreds
MAX_CELLS, MAX_PLACES = 2000, 100_000
_WRAPPERS = ("thead", "tbody", "tfoot")
_CELLS = ("td", "th")
_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
# A parser that fetches nothing and resolves no entities of a document type.
_PARSER = html.HTMLParser(no_network=True, remove_comments=True, remove_pis=True, huge_tree=False)


Side = Literal["up", "down", "left", "right"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell and the rows and columns it covers. is_header: written as `<th>`, or in the first line of Markdown."""

    text: str
    row: int
    column: int
    rows: int = 1
    columns: int = 1
    is_header: bool = False

    @property
    def bottom(self) -> int:
        return self.row + self.rows

    @property
    def right(self) -> int:
        return self.column + self.columns


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """cells: row by row. places: (row, column) -> the cell that covers it."""

    cells: tuple[Cell, ...]
    places: Mapping[tuple[int, int], Cell]

    @property
    def is_rectangular(self) -> bool:
        """Whether there is a cell at every place of the rows and columns that the cells reach; not without cells."""
        rows = max((cell.bottom for cell in self.cells), default=0)
        return rows * max((cell.right for cell in self.cells), default=0) == len(self.places) > 0

    def beside(self, cell: Cell, side: Side) -> set[Cell]:
        """The cells that touch one on a side."""
        edge = {"up": cell.row - 1, "down": cell.bottom, "left": cell.column - 1, "right": cell.right}[side]
        found = (self.places.get(place) for place in _line(cell, side, edge))
        return {other for other in found if other is not None}

    def headings(self, cell: Cell, side: Literal["up", "left"]) -> set[Cell]:
        """The header cells above or to the left; where there is none, the last cells that way."""
        edges = range((cell.row if side == "up" else cell.column) - 1, -1, -1)
        lines = [{self.places.get(place) for place in _line(cell, side, edge)} - {None} for edge in edges]
        headers = {other for line in lines for other in line if other is not None and other.is_header}
        return headers or {other for other in next(filter(None, reversed(lines)), ()) if other is not None}


def _line(cell: Cell, side: Side, edge: int) -> list[tuple[int, int]]:
    """The places of a cell's rows or columns in the column or row `edge`."""
    if side in ("up", "down"):
        return [(edge, column) for column in range(cell.column, cell.right)]
    return [(row, edge) for row in range(cell.row, cell.bottom)]


def html_of_markdown(text: str) -> str:
    """Markdown, with HTML in it left as it is, as HTML; Markdown's own tables have the attribute `data-markdown`."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        if token.type == "table_open":
            token.attrSet("data-markdown", "")
    return _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})


def markdown_tables(text: str) -> list[tuple[int, int, str]]:
    """Start, end and HTML of Markdown's own tables, in order, those in lists and quotes left out. text: with line feeds
    as its only line ends.
    """
    if "|" not in text:
        return []
    starts = [0, *itertools.accumulate(len(line) + 1 for line in text.split("\n"))]
    found = [token.map for token in _MARKDOWN.parse(text) if token.type == "table_open" and token.level == 0]
    places = [(starts[lines[0]], min(starts[lines[1]], len(text))) for lines in found if lines is not None]
    return [(start, end, html_of_markdown(text[start:end])) for start, end in places]


def parse_html(text: str) -> html.HtmlElement:
    """The text inside one `div`, whatever it holds."""
    clean = _FORBIDDEN.sub(" ", text)
    return html.fragment_fromstring(clean, create_parent=True, parser=_PARSER)


_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # what XML cannot hold


def outer_tables(root: html.HtmlElement) -> list[html.HtmlElement]:
    """The tables that are in no other table, in order."""
    return [table for table in root.iter("table") if next(table.iterancestors("table"), None) is None]


def grid(table: html.HtmlElement) -> Grid | None:
    """The cells at the places that HTML's rule for spans gives them: row by row, each in the first free columns.

    None for a table of more than MAX_CELLS cells or MAX_PLACES places.
    <table><tr><td rowspan=2>a<td>b<tr><td>c</table> has a at (0, 0), b at (0, 1), and c at (1, 1).
    """
    cells: list[Cell] = []
    places: dict[tuple[int, int], Cell] = {}
    rows = list(_rows(table))
    for row, element in enumerate(rows):
        column = 0
        for child in element:
            if child.tag not in _CELLS:
                continue
            while (row, column) in places:
                column += 1
            height = min(_span(child, "rowspan"), len(rows) - row)
            cell = Cell(cell_text(child), row, column, height, _span(child, "colspan"), child.tag == "th")
            if len(cells) == MAX_CELLS or len(places) + cell.rows * cell.columns > MAX_PLACES:
                return None
            places |= {(r, c): cell for r in range(row, cell.bottom) for c in range(column, cell.right)}
            cells.append(cell)
            column = cell.right
    return Grid(tuple(cells), places)


def _rows(table: html.HtmlElement) -> Iterator[html.HtmlElement]:
    for child in table:
        if child.tag == "tr":
            yield child
        elif child.tag in _WRAPPERS:
            yield from (row for row in child if row.tag == "tr")


def _span(cell: html.HtmlElement, name: str) -> int:
    """A span as HTML reads it: digits, at least 1; anything else is 1."""
    match = re.match(r"\s*(\d{1,9})", cell.get(name, ""))
    return min(max(int(match[1]), 1), MAX_SPAN) if match else 1


def cell_text(cell: html.HtmlElement) -> str:
    """The text of a cell, blanks cleaned; a line break is a blank."""
    return clean_text(" ".join(cell.itertext()) if len(cell) else cell.text or "")


def plain_html(table: html.HtmlElement) -> str:
    """Rows, cells with their spans, and texts alone, a header cell as a cell; how OmniDocBench compares sources."""
    rows = []
    for row in _rows(table):
        cells = []
        for cell in row:
            if cell.tag in _CELLS:
                spans = [(name, cell.get(name)) for name in ("colspan", "rowspan") if cell.get(name)]
                said = "".join(f' {name}="{value}"' for name, value in spans)
                cells.append(f"<td{said}>{cell_text(cell)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>{''.join(rows)}</table>"


@dataclass(frozen=True, slots=True, eq=False)
class TableTree:
    """A table as the tree that TEDS compares. labels: tag and spans of every node; texts: of cells, else empty."""

    order: Postorder
    labels: tuple[tuple[str, int, int], ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, table: html.HtmlElement, *, plain: bool) -> TableTree | None:
        """None for a table of more than MAX_NODES nodes.

        plain: header cells count as cells, and thead, tbody and tfoot are left out, for what a reader sees as one
        table may be written with them or without.
        """
        labels: list[tuple[str, int, int]] = []
        texts: list[str] = []
        below: list[list[int]] = []

        def add(label: tuple[str, int, int], text: str, children: Sequence[int]) -> int:
            labels.append(label)
            texts.append(text)
            below.append(list(children))
            return len(labels) - 1

        def visit(element: html.HtmlElement) -> list[int]:
            """The nodes that stand for an element."""
            if len(labels) > MAX_NODES or not isinstance(element.tag, str):
                return []
            if element.tag in _CELLS:
                tag = "td" if plain else element.tag
                return [add((tag, _span(element, "colspan"), _span(element, "rowspan")), cell_text(element), ())]
            children = [node for child in element for node in visit(child)]
            if plain and element.tag in _WRAPPERS:
                return children
            return [add((element.tag, 1, 1), "", children)]

        visit(table)
        return cls(Postorder.of(below), tuple(labels), tuple(texts)) if len(labels) <= MAX_NODES else None

    @property
    def size(self) -> int:
        """Nodes below the table itself."""
        return len(self.labels) - 1


def teds(prediction: TableTree, reference: TableTree, *, structure_only: bool = False) -> float:
    """Tree edit distance similarity: 1 - distance / nodes of the larger tree, the tables themselves not counted.

    A node inserted or removed costs 1; one renamed costs 1 if tag or span differ, else the edits of the cell's text
    by the longer text's length. Source: Zhong et al. 2020 (PubTabNet). structure_only: texts count nothing (TEDS-S).

    2 x 2 tables, one text of four different: distance 1 of 6 nodes, 0.8333. The last row missing: 3 of 6, 0.5.
    """
    labels_N1 = np.array([hash(label) for label in prediction.labels])[:, None]
    labels_M = np.array([hash(label) for label in reference.labels])
    rename_NM = (labels_N1 != labels_M).astype(np.float64)
    if not structure_only:
        edits_NM = cdist(prediction.texts, reference.texts, scorer=Levenshtein.normalized_distance, dtype=np.float64)
        rename_NM = np.maximum(rename_NM, edits_NM)
    nodes = max(prediction.size, reference.size, 1)
    return max(0.0, 1.0 - tree_distance(prediction.order, reference.order, rename_NM) / nodes)
