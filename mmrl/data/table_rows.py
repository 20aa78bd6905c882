"""Rows of .tsv and .csv files, by byte ranges: the first row names the columns, a quoted cell may hold line breaks.

VLMEvalKit's benchmark files (`LMUData`) are such tables: `index`, `image` (base64, or the index of the row that has the
same picture), `question`, `A` to `D`, `answer`. Cells are text, empty ones null; numbers stay as they are written.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mmrl.data.text_spans import TextSpans
from mmrl.errors import DataError

PICTURE, INDEX = "image", "index"
_LONGEST_CELL = 2**31 - 1  # the csv module's own limit, 128 KiB, is less than a picture
_LONGEST_INDEX = 20
_SEPARATORS = {".tsv": "\t", ".csv": ","}


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table. spans: header first, then the rows."""

    spans: TextSpans
    separator: str

    @classmethod
    def open(cls, path: Path) -> TableRows:
        separator = _SEPARATORS[path.suffix.lower()]
        rows = cls(TextSpans.of(path, _spans(path, separator.encode())), separator)
        if not len(rows.spans):
            raise DataError(f"{path.name}:1: an empty table; its first row must name the columns")
        twice = sorted({name for name in rows.columns if rows.columns.count(name) > 1})
        if twice:
            raise DataError(f"{path.name}:1: several columns are called {', '.join(map(repr, twice))}; rename them")
        return rows

    def __len__(self) -> int:
        return len(self.spans) - 1

    def origin(self, number: int) -> str:
        return self.spans.origin(number + 1)

    def read(self, number: int) -> dict[str, Any]:
        row = self._plain(number)
        if PICTURE in row and INDEX in row and _is_index(row[PICTURE]):
            row[PICTURE] = self._picture_of(row[PICTURE], number)
        return row

    @cached_property
    def columns(self) -> list[str]:
        return self._cells(0)

    def _plain(self, number: int) -> dict[str, Any]:
        """The row as it is written."""
        cells = self._cells(number + 1)
        if len(cells) != len(self.columns):
            raise DataError(
                f"{len(cells)} cells where the first row names {len(self.columns)} columns; a cell with a separator "
                "or a line break must stand in double quotes",
                where=self.origin(number),
            )
        return {column: cell or None for column, cell in zip(self.columns, cells, strict=True)}

    def _cells(self, span: int) -> list[str]:
        try:
            text = self.spans.raw(span).decode("utf-8")
        except UnicodeDecodeError as error:
            reason = f"not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
            raise DataError(reason, where=self.spans.origin(span)) from error
        csv.field_size_limit(_LONGEST_CELL)
        try:
            return next(csv.reader(io.StringIO(text, newline=""), delimiter=self.separator))
        except (csv.Error, StopIteration) as error:
            raise DataError(f"not a row of a table: {error}", where=self.spans.origin(span)) from error

    def _picture_of(self, index: str, number: int) -> str:
        """The picture that the row of this index has."""
        there = self._row_of.get(index)
        picture = None if there is None else self._plain(there)[PICTURE]
        if picture is None or _is_index(picture):
            what = (
                "no row has that index" if there is None else f"the row of that index, {self.origin(there)}, has none"
            )
            raise DataError(
                f"column {PICTURE!r} is {index!r}, which stands for another row's picture, but {what}; "
                "use the whole file as published",
                where=self.origin(number),
            )
        return picture

    @cached_property
    def _row_of(self) -> dict[str, int]:
        """Row numbers by index. Read once, and only of files in which a cell refers to another row."""
        return {index: n for n in range(len(self)) if (index := self._plain(n)[INDEX]) is not None}


def _is_index(cell: str | None) -> bool:
    return cell is not None and len(cell) <= _LONGEST_INDEX and cell.isdecimal()


def _spans(path: Path, separator: bytes) -> Iterator[tuple[int, int, int]]:
    """(first byte, byte behind the last, line) of each row; blank lines between rows are no rows."""
    start = end = 0
    first, is_open = 1, False
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            end += len(raw)
            if line == 1 and raw.startswith(codecs.BOM_UTF8):
                start, raw = len(codecs.BOM_UTF8), raw.removeprefix(codecs.BOM_UTF8)
            if not is_open:
                first = line
            is_blank = not is_open and not raw.strip(b"\r\n")
            is_open = _ends_in_quotes(raw, separator, is_open=is_open)
            if is_open:
                continue
            if not is_blank:
                yield start, end, first
            start = end
    if is_open:
        raise DataError(
            f"{path.name}:{first}: a cell begins with a double quote that nothing closes; close or double it"
        )


def _ends_in_quotes(line: bytes, separator: bytes, *, is_open: bool) -> bool:
    """Whether a quoted cell goes on behind this line. A quote opens a cell only at its start; two stand for one."""
    position = 0
    while True:
        if is_open:
            position = line.find(b'"', position)
            if position < 0:
                return True
            is_open = line[position + 1 : position + 2] == b'"'
            position += 2 if is_open else 1
        elif line.startswith(b'"', position):
            is_open, position = True, position + 1
        else:
            position = line.find(separator, position) + 1
            if position == 0:
                return False
