r"""Tests on the transcription of a page, each passed or not: text present, absent or in order, cells, formulas, form.

The types and their fields are those of olmOCR-Bench, so its rows are tests here. Formulas are compared by a function
that is given, for it needs a renderer.

>>> page = Page("# Total\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nsee **page 12**")
>>> tests = [{"type": "present", "text": "page 12"}, {"type": "table", "cell": "2", "left": "1", "up": "b"}]
>>> [read_test(test).passes(page, same_formula=str.__eq__) for test in tests]
[True, True]
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Literal

from rapidfuzz import fuzz

from mmrl.errors import did_you_mean
from mmrl.scoring.page_text import best_ratio, plain_text, starts
from mmrl.scoring.tables import Cell, Grid, grid, html_of_markdown, outer_tables, parse_html

SameFormula = Callable[[str, str], bool]
_ROUNDING = 1e-9  # a ratio of exactly the threshold passes
_IGNORED = ("pdf", "page", "id", "url", "checked")  # fields of olmOCR-Bench that say where a test comes from
_DELIMITERS = ((r"\(", r"\)"), (r"\[", r"\]"), ("$$", "$$"), ("$", "$"))
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]{0,1000}\]\([^)]{0,1000}\)")  # bounded, so that open brackets cost little
# Scripts and pictures that no English page holds: Chinese and Japanese, emoji, flags.
_FOREIGN = re.compile(
    "[\u3040-\u30ff\u4e00-\u9fff\U0001f1e0-\U0001f1ff\U0001f300-\U0001f5ff\U0001f600-\U0001f64f\U0001f680-\U0001f6ff]"
)
_AROUND_MARK = 200  # characters on each side of a footnote's mark
_SUPERSCRIPTS = dict(zip("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True))
_ELEMENTS = {"heading": "h1|h2|h3|h4|h5|h6", "bold": "strong|b", "italic": "em|i"}


class Page:
    """A transcription, with what tests look at made once, when first asked for. HTML comments are no part of it.

    official: a text is found on a page shorter than itself if the page is a part of it, as in olmOCR.
    """

    def __init__(self, text: str, *, official: bool = False) -> None:
        self.text, self.official = _COMMENT.sub("", text), official

    def ratio(self, sought: str, where: str) -> float:
        """How well a text is found in a part of the page, of 0 to 1."""
        return fuzz.partial_ratio(sought, where) / 100 if self.official else best_ratio(sought, where)

    @functools.cached_property
    def plain(self) -> str:
        return plain_text(self.text)

    @functools.cached_property
    def lower(self) -> str:
        return self.plain.lower()

    @functools.cached_property
    def _document(self) -> Any:
        return parse_html(html_of_markdown(self.text))

    @functools.cached_property
    def html_grids(self) -> list[Grid]:
        return _grids(outer_tables(parse_html(self.text)), first_column_is_header=False)

    @functools.cached_property
    def markdown_grids(self) -> list[Grid]:
        tables = [table for table in outer_tables(self._document) if "data-markdown" in table.attrib]
        return _grids(tables, first_column_is_header=True)

    def elements(self, kind: str) -> list[str]:
        """The plain texts of all headings, or of all that is bold or italic."""
        tags = _ELEMENTS[kind].split("|")
        return [plain_text("".join(element.itertext())) for element in self._document.iter(*tags)]

    @functools.cached_property
    def table_count(self) -> int:
        """How many tables are written in HTML, those inside others left out."""
        return len(outer_tables(parse_html(self.text)))

    @functools.cached_property
    def formula_count(self) -> int:
        """How many formulas there are, but for those between single dollars."""
        found, rest = [], self.text
        for opening, closing in _DELIMITERS[:3]:
            more, rest = _between(rest, opening, closing)
            found += more
        return sum(map(bool, found))

    def formulas(self, *, dollars: bool) -> list[str]:
        r"""What stands in \(..\) and \[..\], and where `dollars` between $ or $$."""
        found, rest = [], self.text
        for opening, closing in _DELIMITERS if dollars else _DELIMITERS[:2]:
            more, rest = _between(rest, opening, closing)
            found += more
        return found


def _between(text: str, opening: str, closing: str) -> tuple[list[str], str]:
    """What stands between each pair of delimiters, and the text without these parts. Linear, whatever is unclosed."""
    found, kept, position = [], [], 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start + len(opening))
        if end < 0:
            break
        kept.append(text[position:start])
        found.append(text[start + len(opening) : end].strip())
        position = end + len(closing)
    return found, " ".join((*kept, text[position:]))


def _grids(tables: Sequence[Any], *, first_column_is_header: bool) -> list[Grid]:
    """Of each table that is not too large, with plain texts."""

    def plain(cell: Cell) -> Cell:
        is_header = cell.is_header or (first_column_is_header and cell.column == 0)
        return replace(cell, text=plain_text(cell.text), is_header=is_header)

    found = []
    for cells in filter(None, map(grid, tables)):
        clean = {cell: plain(cell) for cell in cells.cells}
        found.append(Grid(tuple(clean.values()), {place: clean[cell] for place, cell in cells.places.items()}))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTest(ABC):
    """max_diffs: edits that are let through, in the text that is sought."""

    max_diffs: int = 0
    needed: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        """Whether a page meets the test; same_formula compares two formulas."""

    def threshold(self, sought: str) -> float:
        return 1 - self.max_diffs / len(sought) - _ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Present(PageTest):
    """A text stands on the page, or in its first and last characters: a ratio >= 1 - max_diffs / length."""

    text: str
    case_sensitive: bool = True
    first_n: int | None = None
    last_n: int | None = None

    def __post_init__(self) -> None:
        length = len(plain_text(self.text))
        if self.max_diffs >= length:
            raise ValueError(f"max_diffs {self.max_diffs} lets every page pass: the text has {length} characters")

    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        sought, where = plain_text(self.text), page.plain if self.case_sensitive else page.lower
        if self.first_n or self.last_n:
            where = where[: self.first_n or 0] + (where[-self.last_n :] if self.last_n else "")
        return page.ratio(sought if self.case_sensitive else sought.lower(), where) >= self.threshold(sought)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent(Present):
    """A text, such as a page number, does not stand there."""

    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        return not Present.passes(self, page, same_formula=same_formula)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(PageTest):
    """One text begins, somewhere, before the other does; each with at most max_diffs edits."""

    before: str
    after: str

    def __post_init__(self) -> None:
        shorter = min(len(plain_text(self.before)), len(plain_text(self.after)))
        if self.max_diffs > shorter // 2:
            raise ValueError(f"max_diffs {self.max_diffs} is more than half of a text of {shorter} characters")

    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        first = starts(plain_text(self.before), page.plain, max_edits=self.max_diffs)
        last = starts(plain_text(self.after), page.plain, max_edits=self.max_diffs)
        return len(first) > 0 and len(last) > 0 and bool(first[0] < last[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(PageTest):
    """A cell of some table holds a text and has all the neighbours given.

    up, down, left, right: the text of a cell that touches it there. top_heading, left_heading: of a header cell above
    or to the left; where there is none, of the last cell that way. Texts match from a ratio of 1 - max_diffs / length
    on, at least 0.5. A Markdown table's first column counts as header cells, for Markdown cannot say.
    """

    cell: str
    up: str = ""
    down: str = ""
    left: str = ""
    right: str = ""
    top_heading: str = ""
    left_heading: str = ""
    ignore_markdown_tables: bool = False

    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        grids = page.html_grids + ([] if self.ignore_markdown_tables else page.markdown_grids)
        return any(
            self._matches(cell, self.cell) and self._has_neighbours(cell, cells)
            for cells in grids
            for cell in cells.cells
        )

    def _matches(self, found: Cell, text: str) -> bool:
        sought = plain_text(text)
        return fuzz.ratio(found.text, sought) / 100 >= max(0.5, self.threshold(sought))

    def _has_neighbours(self, cell: Cell, cells: Grid) -> bool:
        wanted = (
            (self.up, lambda: cells.beside(cell, "up")),
            (self.down, lambda: cells.beside(cell, "down")),
            (self.left, lambda: cells.beside(cell, "left")),
            (self.right, lambda: cells.beside(cell, "right")),
            (self.top_heading, lambda: cells.headings(cell, "up")),
            (self.left_heading, lambda: cells.headings(cell, "left")),
        )
        return all(any(self._matches(other, text) for other in others()) for text, others in wanted if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Math(PageTest):
    """A formula stands on the page, letter for letter or rendered alike."""

    math: str
    ignore_dollar_delimited: bool = False

    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        sought = self.math.strip()
        if sought in page.formulas(dollars=not self.ignore_dollar_delimited):
            return True
        return any(same_formula(formula, sought) for formula in self.likely(page))

    def likely(self, page: Page) -> list[str]:
        """The page's formulas that are compared, the most similar ones first."""
        found = set(page.formulas(dollars=not self.ignore_dollar_delimited))
        return sorted(found, key=lambda formula: -fuzz.ratio(formula, self.math.strip()))[:MAX_FORMULAS]


MAX_FORMULAS = 50  # rendered for one test, the most similar ones: as many as olmOCR mines of a page


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(PageTest):
    """The page is no rubbish: a letter or digit, no endless repetition at its end, no characters of other scripts.

    max_repeats: times that the last one to five characters may repeat. max_length: for blank pages; only
    tests that there are at most so many letters and digits.
    """

    max_repeats: int = 30
    check_disallowed_characters: bool = True
    max_length: int | None = None
    max_length_skips_image_alt_tags: bool = False

    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        text = _PICTURE.sub("", page.text) if self.max_length_skips_image_alt_tags else page.text
        count = sum(map(str.isalnum, text))
        if self.max_length is not None:
            return count <= self.max_length
        if not count or (self.check_disallowed_characters and _FOREIGN.search(text)):
            return False
        return max(_repeats(text, size) for size in range(1, 6)) <= self.max_repeats


def _repeats(text: str, size: int) -> int:
    """How often the last `size` characters stand at the end one after the other; blanks count as characters."""
    end, times = text[-size:], 1
    while text[-size * (times + 1) : -size * times] == end:
        times += 1
    return times


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(PageTest):
    """A heading, or a bold or italic part, holds a text."""

    text: str
    format: Literal["heading", "bold", "italic"]

    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        sought = plain_text(self.text)
        return any(page.ratio(sought, found) >= self.threshold(sought) for found in page.elements(self.format))


@dataclass(frozen=True, slots=True, kw_only=True)
class Footnote(PageTest):
    """The mark of a footnote, as `[^1]`, `<sup>1</sup>` or `¹`, stands behind a text, and before one.

    One mark may have the one, another the other. Letters and digits are compared, without case, in twice the length of
    the text beside the mark. `[^1]:` begins a footnote and is no mark.
    """

    marker: str
    appears_before_marker: str = ""
    appears_after_marker: str = ""

    def __post_init__(self) -> None:
        if re.search(r"\s", self.marker):
            raise ValueError(f"footnote: the marker {self.marker!r} holds a blank")
        for text in (self.appears_before_marker, self.appears_after_marker):
            if text and not _letters(text):
                raise ValueError(f"footnote: {text!r} holds no letter or digit")

    def passes(self, page: Page, *, same_formula: SameFormula) -> bool:
        marks = list(self._pattern().finditer(page.text))
        befores = [_letters(page.text[max(0, mark.start() - _AROUND_MARK) : mark.start()]) for mark in marks]
        afters = [_letters(page.text[mark.end() : mark.end() + _AROUND_MARK]) for mark in marks]
        return (
            bool(marks)
            and self._is_beside(self.appears_before_marker, befores, page, at_end=True)
            and self._is_beside(self.appears_after_marker, afters, page, at_end=False)
        )

    def _pattern(self) -> re.Pattern[str]:
        mark = re.escape(self.marker)
        raised = "".join(_SUPERSCRIPTS.get(c, "") for c in self.marker)
        unicode = "|" + raised if len(raised) == len(self.marker) else ""
        return re.compile(rf"\[\^{mark}\](?!:)|<sup[^>]{{0,200}}>{mark}</sup>{unicode}", re.IGNORECASE)

    def _is_beside(self, text: str, beside: Sequence[str], page: Page, *, at_end: bool) -> bool:
        sought, least = _letters(text), self.threshold(plain_text(text)) if text else 0.0
        size = 2 * len(sought)
        near = (where[-size:] if at_end else where[:size] for where in beside)
        return not text or any(where and page.ratio(sought, where) >= least for where in near)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, plain_text(text))).lower()


TYPES: dict[str, type[PageTest]] = {
    "present": Present,
    "absent": Absent,
    "order": Order,
    "table": Table,
    "math": Math,
    "baseline": Baseline,
    "format": Format,
    "footnote": Footnote,
}


def read_test(row: Mapping[str, Any]) -> PageTest:
    """A test from a row of olmOCR-Bench's form. Raises ValueError saying what is wrong with it."""
    kind = row.get("type")
    if kind not in TYPES:
        raise ValueError(f"type {kind!r} is none of {', '.join(TYPES)}{did_you_mean(str(kind), TYPES)}")
    given = {name: value for name, value in row.items() if name != "type" and name not in _IGNORED}
    known = {field.name: field for field in fields(TYPES[kind])}
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"{kind} has no field {unknown[0]!r}{did_you_mean(unknown[0], known)}")
    for name, field in known.items():
        _check_field(kind, name, given.get(name), needed=field.default is MISSING)
    return TYPES[kind](**{name: value for name, value in given.items() if value is not None})


def _check_field(kind: str, name: str, value: Any, *, needed: bool) -> None:
    if needed and not (isinstance(value, str) and plain_text(value)):
        raise ValueError(f"{kind} needs the text {name!r}")
    if name in _NUMBERS and value is not None and (not isinstance(value, int) or value < 0):
        raise ValueError(f"{kind}: {name} is {value!r}, not a number from 0 on")
    if name == "format" and value not in _ELEMENTS:
        raise ValueError(f"format: {value!r} is none of {', '.join(_ELEMENTS)}")


_NUMBERS = ("max_diffs", "first_n", "last_n", "max_repeats", "max_length")
