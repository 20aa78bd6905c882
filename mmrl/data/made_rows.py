"""What the scripts `datasets/*/prepare.py` share: rows as they were published in, rows of a card out.

    python datasets/refcoco/prepare.py refcoco/*.parquet --out data/refcoco/train.jsonl

A script is one function from a published file to rows; `main` is its command line. Paths of media in the rows that
it writes are relative to the folder of the file that holds the rows, where media lie inside the published rows.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mmrl.data.rows import open_rows
from mmrl.errors import DataError, MmrlError, did_you_mean

_SUFFIXES = {b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"RIFF": ".webp"}

MakeRows = Callable[..., Iterable[Mapping[str, Any]]]
"""(source, folder of the rows that are written, **options) -> rows."""


class PublishedRow(dict[str, Any]):
    """A row as it was published; a column that it lacks is a DataError that names file, line and what there is."""

    def __init__(self, values: Mapping[str, Any], *, origin: str) -> None:
        super().__init__(values)
        self.origin = origin

    def __missing__(self, column: str) -> Any:
        near = did_you_mean(column, self)
        raise DataError(f"no column {column!r}; columns present: {', '.join(self) or 'none'}{near}", where=self.origin)


def published_rows(path: Path) -> Iterator[PublishedRow]:
    """The rows of a JSONL, JSON or Parquet file, or of a Hugging Face dataset folder, in order."""
    rows = open_rows(path)
    for number in range(len(rows)):
        yield PublishedRow(rows.read(number), origin=rows.origin(number))


def picture_file(row: PublishedRow, column: str, folder: Path) -> str:
    """The path, for a row of `folder`, of a picture that a published row holds as `{"bytes": ..., "path": ...}`.

    The bytes are written to images/, named by their content, so rows that share a picture share a file.
    """
    data = row[column].get("bytes") if isinstance(row[column], Mapping) else row[column]
    suffix = next((end for start, end in _SUFFIXES.items() if isinstance(data, bytes) and data.startswith(start)), None)
    if suffix is None:
        raise DataError(f"the column {column!r} holds no PNG, JPEG or WebP picture", where=row.origin)
    path = folder / "images" / f"{hashlib.sha256(data).hexdigest()[:24]}{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return path.relative_to(folder).as_posix()


def corners(row: PublishedRow, box: Any) -> list[float]:
    """x1, y1, x2, y2 of a box published as x, y, width, height.

    >>> corners(PublishedRow({}, origin="a.json:1"), [10, 20, 30, 5])
    [10, 20, 40, 25]
    """
    if not isinstance(box, list | tuple) or len(box) != 4 or min(box[2:]) <= 0:
        raise DataError(f"{box!r} is no box [x, y, width, height]", where=row.origin)
    x, y, width, height = box
    return [x, y, x + width, y + height]


def write_rows(rows: Iterable[Mapping[str, Any]], out: Path) -> int:
    """Write rows as JSONL and return how many. The file appears whole, or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    count = 0
    try:
        with part.open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
        if count:
            part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    if not count:
        raise DataError(f"{out}: not written, for nothing in the sources makes a row")
    return count


def main(
    doc: str | None, make: MakeRows, *, options: Mapping[str, Mapping[str, Any]] | None = None, argv: Any = None
) -> None:
    """The command line of a script: sources, `--out`, and options of its own, which `make` gets by name.

    doc: the script's docstring. options: name -> arguments of `ArgumentParser.add_argument`.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, nargs="+", metavar="SOURCE")
    parser.add_argument("--out", type=Path, required=True, metavar="ROWS.jsonl")
    for name, arguments in (options or {}).items():
        parser.add_argument(f"--{name.replace('_', '-')}", **arguments)
    args = parser.parse_args(argv)
    own = {name: getattr(args, name) for name in options or {}}
    try:
        made = (row for source in args.sources for row in make(source, args.out.parent, **own))
        print(f"{args.out}: {write_rows(made, args.out)} rows")
    except (MmrlError, OSError) as error:
        sys.exit(f"error: {error}")
