"""Rows of a data file by number: JSONL, JSON, Parquet, tables, Hugging Face and LeRobot dataset folders, one contract.

Rows stay where they are compact (byte offsets into a text file, Arrow buffers) and become Python objects one at a
time, when they are asked for. Text is UTF-8, whatever the platform's codec; a byte-order mark is skipped.
"""

from __future__ import annotations

import codecs
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from mmrl.config.schema import RobotSection
from mmrl.data.lerobot import INFO, open_lerobot
from mmrl.data.table_rows import TableRows
from mmrl.data.text_spans import TextSpans
from mmrl.errors import ConfigError, DataError, did_you_mean, type_words

KEPT_ROW_GROUP_BYTES = 2**30
FORMATS = (
    ".jsonl, .json (a list of objects), .parquet, .tsv, .csv, or a folder: of datasets.save_to_disk, or of LeRobot"
)
_BLANK = re.compile(r"[ \t\r\n]*")


class Rows(Protocol):
    """A data file. Row numbers count from 0; blank lines are no rows."""

    def __len__(self) -> int: ...

    def origin(self, number: int) -> str:
        """`train.jsonl:381`: file and line; for binary formats file and row, counted from 1."""
        ...

    def read(self, number: int) -> dict[str, Any]:
        """The row as column -> value. DataError when it is not an object."""
        ...


def open_rows(path: Path, *, split: str | None = None, robot: RobotSection | None = None) -> Rows:
    """The rows of a file or folder; the format is the suffix. DataError for an unknown one, ConfigError for no file.

    split: of a folder. robot: which frames of a LeRobot folder are rows; None: the defaults.
    """
    if not path.exists():
        raise ConfigError(f"{path}: no such file or folder{_near(path)}")
    if (path / INFO).is_file():
        return open_lerobot(path, split=split, robot=robot or RobotSection())
    if path.is_dir():
        return _open_hub_folder(path, split)
    if split is not None:
        raise DataError(f"{path}: `split: {split}` is for dataset folders; this is one file, remove it")
    if path.suffix.lower() not in _OPENERS:
        raise DataError(f"{path}: unknown format {path.suffix!r}; known: {FORMATS}")
    return _OPENERS[path.suffix.lower()](path)


def _near(path: Path) -> str:
    """What a path that leads nowhere may have meant, as the end of a message."""
    if path.parent.is_dir():
        return did_you_mean(path.name, [entry.name for entry in path.parent.iterdir()])
    return f"; there is no folder {path.parent}"


@dataclass(frozen=True, eq=False)
class TextRows(TextSpans):
    """Rows of a text file, each a JSON object in its byte range."""

    def read(self, number: int) -> dict[str, Any]:
        return parse_row(self.raw(number), self.origin(number))


def parse_row(raw: bytes, origin: str) -> dict[str, Any]:
    """The row on one line of a JSONL file. DataError, beginning with `origin`, for what is no JSON object."""
    try:
        row = _decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        raise DataError(reason, where=origin) from error
    except DataError as error:
        raise DataError(error.reason, where=origin) from error
    except (ValueError, RecursionError) as error:
        raise DataError(json_problem(error), where=origin) from error
    if not isinstance(row, dict):
        raise DataError(f"a row must be a JSON object, this is {type_words(row)}", where=origin)
    if b"\\ud" in raw.lower():
        _refuse_half_characters(row, origin)
    return row


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values. DataError for a key that is there twice: `json` would drop the first."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twin = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise DataError(f"the key {twin!r} is there twice in one object; keep the one that is meant")
    return found


_decode = json.JSONDecoder(object_pairs_hook=_without_twins).decode


def json_problem(error: ValueError | RecursionError) -> str:
    """What is wrong with a text that `json` refuses."""
    if isinstance(error, RecursionError):
        return "brackets are nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {error.msg} at character {error.pos + 1}"
    return "a number with too many digits; write it as a string"


def _refuse_half_characters(row: dict[str, Any], origin: str) -> None:
    """DataError for text with one half of a surrogate pair: JSON can write it, no tokenizer can read it."""
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        reason = f"text with half a character ({half}), left by cutting a string in the middle; mend or remove it"
        raise DataError(reason, where=origin) from error


def _index_jsonl(path: Path) -> TextRows:
    return TextRows.of(path, _jsonl_spans(path))


def _jsonl_spans(path: Path) -> Iterator[tuple[int, int, int]]:
    start = 0
    with path.open("rb") as file:
        for line, raw in enumerate(file, start=1):
            end = start + len(raw)
            if line == 1 and raw.startswith(codecs.BOM_UTF8):
                start, raw = len(codecs.BOM_UTF8), raw.removeprefix(codecs.BOM_UTF8)
            if raw.strip():
                yield start, end, line
            start = end


def _index_json(path: Path) -> TextRows:
    """Byte ranges of the objects in a JSON list. The text is held once, while it is indexed."""
    raw = path.read_bytes()
    shift = len(codecs.BOM_UTF8) if raw.startswith(codecs.BOM_UTF8) else 0
    try:
        text = raw[shift:].decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, shift + error.start) + 1
        raise DataError(f"{path.name}:{line}: not UTF-8 text ({error.reason}); save it as UTF-8") from error
    return TextRows.of(path, _json_spans(text, path, offset=shift))


def _json_spans(text: str, path: Path, *, offset: int) -> Iterator[tuple[int, int, int]]:
    """(first byte, byte behind the last, line) of each value in a JSON list; the text starts at byte `offset`."""
    position, line = 0, 1
    for start, end in _list_items(text, path):
        between, item = text[position:start], text[start:end]
        first, line = offset + len(between.encode()), line + between.count("\n")
        position, offset = end, first + len(item.encode())
        yield first, offset, line
        line += item.count("\n")


def _list_items(text: str, path: Path) -> Iterator[tuple[int, int]]:
    """Character ranges of the values in a JSON list."""
    decoder = json.JSONDecoder()
    position = _after_blank(text, 0)
    if text[position : position + 1] != "[":
        raise DataError(
            f"{path.name}:1: a .json file must hold one list of rows, [{{...}}, ...]; "
            "rename it to .jsonl if it holds one object a line"
        )
    position = _after_blank(text, position + 1)
    while text[position : position + 1] != "]":
        try:
            end = decoder.raw_decode(text, position)[1]
        except json.JSONDecodeError as error:
            raise DataError(f"{path.name}:{error.lineno}: not valid JSON: {error.msg}, column {error.colno}") from error
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path.name}:{_line(text, position)}: {json_problem(error)}") from error
        yield position, end
        position = _after_item(text, _after_blank(text, end), path)
    rest = _after_blank(text, position + 1)
    if rest != len(text):
        raise DataError(f"{path.name}:{_line(text, rest)}: not valid JSON: text after the end of the list")


def _after_item(text: str, position: int, path: Path) -> int:
    """Where the next value or the closing bracket is."""
    following = _after_blank(text, position + 1)
    if text[position : position + 1] == "," and text[following : following + 1] != "]":
        return following
    if text[position : position + 1] != "]":
        raise DataError(f"{path.name}:{_line(text, position)}: not valid JSON: `,` and a row, or `]`, expected here")
    return position


def _after_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


@contextmanager
def arrow_errors(name: str) -> Iterator[None]:
    """Turn what Arrow raises for damaged files into DataError; a file that is not there passes unchanged.

    Besides its own classes Arrow raises OSError for bytes it cannot decompress, ValueError (of text that is no UTF-8,
    of JSON in the metadata) and IndexError or KeyError for tables that do not fit their schema.
    """
    import pyarrow

    try:
        yield
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, OverflowError, TypeError) as error:
        raise DataError(f"{name}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an exception's message; its class where it has none."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@dataclass(frozen=True, eq=False)
class ParquetRows:
    """Rows of a Parquet file. A row group is read when one of its rows is asked for, as Arrow buffers.

    Those used last are kept, up to `keep_bytes`: rows may hold pictures, and a file then does not fit into memory.
    """

    path: Path
    file: Any
    starts: tuple[int, ...]
    keep_bytes: int = KEPT_ROW_GROUP_BYTES
    groups: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> ParquetRows:
        import pyarrow.parquet

        with arrow_errors(f"{path}: not a Parquet file"):
            file = pyarrow.parquet.ParquetFile(path)
            sizes = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
        if any(size < 0 for size in sizes):
            raise DataError(f"{path}: not a Parquet file: a row group of {min(sizes)} rows")
        return cls(path, file, tuple(accumulate(sizes, initial=0)))

    def __len__(self) -> int:
        return self.starts[-1]

    def origin(self, number: int) -> str:
        return f"{self.path.name}:{number + 1}"

    def read(self, number: int) -> dict[str, Any]:
        group = bisect_right(self.starts, number) - 1
        with arrow_errors(f"{self.origin(number)}: damaged Parquet file"):
            table = self.groups.pop(group, None) or self.file.read_row_group(group)
            self.groups[group] = table  # last: a dictionary keeps the order in which its keys came in
            self._forget()
            return table.slice(number - self.starts[group], 1).to_pylist()[0]

    def _forget(self) -> None:
        """Let go of row groups unused longest while more than one is kept and they are too large together."""
        while len(self.groups) > 1 and sum(table.nbytes for table in self.groups.values()) > self.keep_bytes:
            del self.groups[next(iter(self.groups))]


@dataclass(frozen=True, eq=False)
class HubFolderRows:
    """Rows of a Hugging Face dataset on disk, memory-mapped; media columns are not decoded."""

    path: Path
    table: Any

    def __len__(self) -> int:
        return len(self.table)

    def origin(self, number: int) -> str:
        return f"{self.path.name}:{number + 1}"

    def read(self, number: int) -> dict[str, Any]:
        with arrow_errors(f"{self.origin(number)}: damaged dataset folder"):
            return self.table[number].to_pylist()[0]


def _open_hub_folder(path: Path, split: str | None) -> HubFolderRows:
    import datasets

    try:
        with arrow_errors(f"{path}: damaged dataset folder"):
            loaded = datasets.load_from_disk(str(path))
    except FileNotFoundError as error:
        raise DataError(f"{path}: not a Hugging Face dataset folder; known formats: {FORMATS}") from error
    if isinstance(loaded, datasets.DatasetDict):
        names = ", ".join(map(str, loaded))
        if split is None:
            raise DataError(f"{path}: a dictionary of splits; choose one by `split:` ({names})")
        if split not in loaded:
            raise DataError(f"{path}: no split {split!r}; it has: {names}")
        loaded = loaded[split]
    elif split is not None:
        raise DataError(f"{path}: `split: {split}`, but the folder holds one dataset without splits; remove it")
    return HubFolderRows(path, loaded.with_format("arrow"))


_OPENERS: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": _index_jsonl,
    ".ndjson": _index_jsonl,
    ".json": _index_json,
    ".parquet": ParquetRows.open,
    ".tsv": TableRows.open,
    ".csv": TableRows.open,
}
