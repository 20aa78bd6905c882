"""Columns from a second file, joined to the rows of a dataset by their ids: ratings of a model, labels of another tool.

The second file is JSONL with an `id` and other columns a line. What it says stays in memory: one mapping a row, some
hundred bytes with three numbers in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.data.rows import Rows, open_rows
from mmrl.errors import DataError

ID = "id"
SampleId = Callable[[Mapping[str, Any], int], str]


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """Rows with further columns. more: by the row's id; a row that is not in it has null in all of them.

    sample_id: of a row and its number.
    """

    rows: Rows
    more: Mapping[str, Mapping[str, Any]]
    columns: tuple[str, ...]
    sample_id: SampleId
    file: Path

    def __len__(self) -> int:
        return len(self.rows)

    def origin(self, number: int) -> str:
        return self.rows.origin(number)

    def read(self, number: int) -> dict[str, Any]:
        row = self.rows.read(number)
        found = self.more.get(self.sample_id(row, number), {})
        for column in self.columns:
            if row.get(column) is not None:
                where = self.rows.origin(number)
                raise DataError(f"{where}: column {column!r} is in the row and in {self.file}; keep one of them")
        return {**row, **{column: found.get(column) for column in self.columns}}


def joined_rows(rows: Rows, file: Path, *, sample_id: SampleId) -> JoinedRows:
    """The rows with the columns of a file. DataError for a line without an id, an id that stands there twice, and a
    file of which no id is one of the rows'.
    """
    further = open_rows(file)
    more: dict[str, dict[str, Any]] = {}
    columns: dict[str, None] = {}
    for number in range(len(further)):
        row = further.read(number)
        name = row.pop(ID, None)
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise DataError(f"{further.origin(number)}: no `id`, which says whose columns these are")
        if str(name) in more:
            raise DataError(f"{further.origin(number)}: the id {str(name)!r} stands in this file twice")
        more[str(name)] = row
        columns.update(dict.fromkeys(row))
    if not any(sample_id(rows.read(number), number) in more for number in range(len(rows))):
        raise DataError(f"{file}: none of its {len(more)} ids is an id of {_first(rows)}, so it belongs to other rows")
    return JoinedRows(rows, more, tuple(columns), sample_id, file)


def _first(rows: Rows) -> str:
    return rows.origin(0).partition(":")[0] if len(rows) else "the dataset, which has no rows"
