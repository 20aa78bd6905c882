r"""An HTML or Markdown document as a list of blocks, which are drawn on pages and transcribed. Pure.

>>> [block.markdown for block in read_document("# A *b*\n\nCost: $x^2$", is_markdown=True).blocks]
['# A *b*', 'Cost: \\(x^2\\)']
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lxml.html import tostring
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from mmrl.scoring.tables import Grid, grid, parse_html

BlockKind = Literal["heading", "text", "item", "formula", "table", "code", "rule"]
CODE_LINES = 30  # of one block; longer code is several
FORMULA = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]|\$\$(.+?)\$\$", re.DOTALL)
_STYLE = re.compile(r"<style\b[^>]*>[^<]*</style>", re.IGNORECASE)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_INVISIBLE = ("script", "style", "template", "noscript", "head", "title", "meta", "link")
_NOT_DRAWN = ("img", "svg", "picture", "video", "audio", "canvas", "iframe", "object", "embed", "math",
              "input", "select", "textarea", "button", "form")  # fmt: skip
_INLINE = ("a", "abbr", "b", "bdi", "bdo", "br", "cite", "code", "data", "del", "dfn", "em", "i", "ins", "kbd",
           "label", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var",
           "wbr")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """Text of one look. math: the text is TeX. raised, lowered: superscript, subscript."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    raised: bool = False
    lowered: bool = False
    math: bool = False

    @property
    def markdown(self) -> str:
        if self.math:
            return rf"\({self.text}\)"
        text = self.text
        if self.raised or self.lowered:
            tag = "sup" if self.raised else "sub"
            return f"<{tag}>{text.strip()}</{tag}>"
        marks = "`" if self.code else "*" * (self.italic + 2 * self.bold)
        bare = text.strip()
        return text.replace(bare, f"{marks}{bare}{marks}") if marks and bare else text


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, paragraph, list item, formula on a line of its own, table, piece of code or rule.

    level: of a heading from 1, of an item's nesting from 0. label: what stands before an item, `-` or `3.`.
    """

    kind: BlockKind
    runs: tuple[Run, ...] = ()
    level: int = 0
    label: str = ""
    cells: Grid | None = None

    @property
    def text(self) -> str:
        """What is read, formulas as TeX, without marks."""
        return "".join(run.text for run in self.runs).strip()

    @property
    def markdown(self) -> str:
        """The transcription: Markdown, tables as HTML, formulas between \\( and \\); nothing for a rule."""
        written = "".join(run.markdown for run in self.runs).strip()
        if self.kind == "heading":
            return f"{'#' * self.level} {written}"
        if self.kind == "item":
            return f"{'    ' * self.level}{self.label} {written}"
        if self.kind == "table":
            assert self.cells is not None
            return _html_table(self.cells)
        return {"formula": rf"\[{self.text}\]", "code": f"```\n{self.text}\n```", "rule": ""}.get(self.kind, written)


@dataclass
class Document:
    """header, footer: running texts, which are no part of a transcription. left_out: what blocks cannot hold."""

    blocks: list[Block] = field(default_factory=list)
    header: str = ""
    footer: str = ""
    left_out: list[str] = field(default_factory=list)


def read_document(text: str, *, is_markdown: bool) -> Document:
    """The blocks of a document. Of HTML only content counts, styles do not; what its own tag hides is left out."""
    root = parse_html(_html_of(text) if is_markdown else text)
    _mark_formulas(root)
    for element in list(root.iter(*_INLINE)):  # a table's cells are read as plain text, without blanks at its marks
        if element.tag != "br" and next(element.iterancestors("td", "th"), None) is not None:
            element.drop_tag()
    document = Document(left_out=_drop_what_is_no_text(root))
    document.header, document.footer = (_take_running(root, tag) for tag in ("header", "footer"))
    document.blocks = [
        block for block in _blocks(root, document, depth=0) if block.kind == "rule" or _has_content(block)
    ]
    return document


def visible_html(text: str) -> str:
    """A page of nothing but what `read_document` reads of it, with its styles; scripts are gone."""
    styles = "".join(_STYLE.findall(text))
    root = parse_html(text)
    _drop_what_is_no_text(root)
    return f"<!doctype html><meta charset=utf-8>{styles}<body>{_written(root)}</body>"


def _written(element: Any) -> str:
    return str(tostring(element, encoding="unicode", with_tail=False))


def _drop_what_is_no_text(root: Any) -> list[str]:
    """Remove hidden elements and those that are no text; the names of the latter."""
    dropped = []
    for element in list(root.iter()):
        if element is root or element.getparent() is None:
            continue
        if not isinstance(element.tag, str) or element.tag in _INVISIBLE or _is_hidden(element):
            element.drop_tree()
        elif element.tag in _NOT_DRAWN:
            dropped.append(f"<{element.tag}>")
            element.drop_tree()
    return dropped


def _html_of(markdown: str) -> str:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False).use(footnote_plugin)
    return parser.render(markdown)


def _mark_formulas(root: Any) -> None:
    r"""Formulas of the Markdown parser as text: \(..\) in a line, \[..\] on its own."""
    for element in root.iter("span", "div", "eqn", "eq", "section"):
        classes = element.get("class", "").split()
        if "math" in classes:
            text = "".join(element.itertext()).strip()
            for child in list(element):
                child.drop_tree()
            element.text = rf"\({text}\)" if "inline" in classes else rf"\[{text}\]"


def _is_hidden(element: Any) -> bool:
    style = element.get("style", "").replace(" ", "").lower()
    return "hidden" in element.attrib or "display:none" in style or "visibility:hidden" in style


def _take_running(root: Any, tag: str) -> str:
    """The text of the outermost `<header>` or `<footer>` that is in no article or section, which is taken out."""
    found = [e for e in root.iter(tag) if not any(a.tag in ("article", "section") for a in e.iterancestors())]
    text = " ".join(" ".join(" ".join(e.itertext()) for e in found).split())
    for element in found:
        element.drop_tree()
    return text


def _has_content(block: Block) -> bool:
    return block.cells is not None or bool(block.text)


def _blocks(element: Any, document: Document, *, depth: int) -> Iterator[Block]:
    """The blocks of an element: of its own text and inline children, and of the blocks among its children."""
    waiting: list[Run] = _text_runs(element.text)
    for child in element:
        if child.tag in _INLINE and not _holds_blocks(child):
            waiting += _runs(child, Run(""))
        else:
            yield from _paragraphs(waiting)
            waiting = []
            yield from _block_of(child, document, depth=depth)
        waiting += _text_runs(child.tail)
    yield from _paragraphs(waiting)


def _holds_blocks(element: Any) -> bool:
    return any(child.tag not in _INLINE for child in element.iterdescendants())


def _block_of(element: Any, document: Document, *, depth: int) -> Iterator[Block]:
    if element.tag in _HEADINGS:
        yield Block("heading", tuple(_inner(element)), level=_HEADINGS[element.tag])
    elif element.tag in ("ul", "ol"):
        yield from _items(element, document, depth=depth)
    elif element.tag == "table":
        yield from _table(element, document)
    elif element.tag == "pre":
        lines = "".join(element.itertext()).strip("\n").expandtabs(4).split("\n")
        for first in range(0, len(lines), CODE_LINES):
            yield Block("code", (Run("\n".join(lines[first : first + CODE_LINES]), code=True),))
    elif element.tag == "hr":
        yield Block("rule")
    else:
        yield from _blocks(element, document, depth=depth)


def _items(element: Any, document: Document, *, depth: int) -> Iterator[Block]:
    """Each item's first paragraph has its label; what follows inside the item are blocks of their own."""
    start = element.get("start", "1")
    number = int(start) if start.isdigit() else 1
    for item in element:
        label = f"{number}." if element.tag == "ol" else "-"
        number += item.tag == "li"
        for place, block in enumerate(_blocks(item, document, depth=depth + 1)):
            is_first = place == 0 and block.kind == "text"
            yield replace(block, kind="item", level=depth, label=label) if is_first else block


def _table(element: Any, document: Document) -> Iterator[Block]:
    cells = grid(element) if next(element.iterdescendants("table"), None) is None else None
    if cells is None or not cells.cells:
        document.left_out.append("a table that is empty, too large or holds another")
        return
    caption = next(iter(element.iter("caption")), None)
    if caption is not None:
        yield from _paragraphs(list(_inner(caption)))
    yield Block("table", cells=cells)


def _inner(element: Any) -> Iterator[Run]:
    yield from _text_runs(element.text)
    for child in element:
        yield from _runs(child, Run(""))
        yield from _text_runs(child.tail)


_LOOKS = {
    **dict.fromkeys(("b", "strong"), "bold"),
    **dict.fromkeys(("i", "em", "cite", "var", "dfn"), "italic"),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), "code"),
    "sup": "raised",
    "sub": "lowered",
}


def _runs(element: Any, look: Run) -> list[Run]:
    """The runs of an inline element, in the look that its ancestors give it."""
    if element.tag == "br":
        return [replace(look, text="\n")]
    if "footnote-backref" in element.get("class", ""):
        return []
    if element.tag in _LOOKS:
        look = replace(look, **{_LOOKS[element.tag]: True})
    is_mark = element.tag == "sup" and "footnote-ref" in element.get("class", "")
    own = "".join(element.itertext()).strip("[] ") if is_mark else element.text
    runs = _text_runs(own, look)
    for child in () if is_mark else element:
        runs += _runs(child, look)
        runs += _text_runs(child.tail, look)
    return runs


def _text_runs(text: str | None, look: Run | None = None) -> list[Run]:
    r"""Text as runs, white space as one blank; what stands between \( and \), \[ and \], $$ and $$ is a formula."""
    look, runs, position = look or Run(""), [], 0
    text = re.sub(r"\s+", " ", text or "")
    for found in FORMULA.finditer(text):
        runs.append(replace(look, text=text[position : found.start()]))
        own_line = found[1] is None
        formula = next(group for group in found.groups() if group is not None).strip()
        runs.append(Run(formula, math=True, lowered=own_line))  # lowered: on a line of its own, until _paragraphs
        position = found.end()
    runs.append(replace(look, text=text[position:]))
    return [run for run in runs if run.text]


def _paragraphs(runs: Sequence[Run]) -> Iterator[Block]:
    """Text blocks, with formulas that want a line of their own between them."""
    waiting: list[Run] = []
    for run in runs:
        if run.math and run.lowered:
            yield Block("text", tuple(waiting))
            yield Block("formula", (replace(run, lowered=False),))
            waiting = []
        else:
            waiting.append(run)
    yield Block("text", tuple(waiting))


def _html_table(cells: Grid) -> str:
    rows: dict[int, list[str]] = {}
    for cell in cells.cells:
        spans = (f' rowspan="{cell.rows}"' if cell.rows > 1 else "") + (
            f' colspan="{cell.columns}"' if cell.columns > 1 else ""
        )
        tag = "th" if cell.is_header else "td"
        rows.setdefault(cell.row, []).append(f"<{tag}{spans}>{html.escape(cell.text, quote=False)}</{tag}>")
    last = max(rows)
    lines = (f"<tr>{''.join(rows.get(number, ()))}</tr>" for number in range(last + 1))
    return "\n".join(("<table>", *lines, "</table>"))
