"""Columns made of columns (`card.make`): a path from an id, options from A to D, a box from x, y, width and height.

A column that holds null makes null. Everything else that cannot be made is a DataError that names the made column.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mmrl.config.data_sections import MadeColumn
from mmrl.data.template_text import row_text, row_text_problem
from mmrl.errors import ConfigError, DataError, MissingMediaError, type_words

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def with_made(
    row: Mapping[str, Any],
    make: Mapping[str, MadeColumn],
    *,
    given: Mapping[str, Any] = MappingProxyType({}),
    root: Path | None = None,
) -> Mapping[str, Any]:
    """The row with the columns that a card makes; one may use those made before it, and replace one of the row.

    given: values of columns, the row's or made ones, that stand in place of theirs; what is made of them is made anew.
    root: folder that `file` starts from; None: files are not read, and their columns are null.

    >>> with_made({"A": "red", "B": "blue"}, {"options": MadeColumn(items=("A", "B"))})["options"]
    ['red', 'blue']
    """
    if not make and not given:
        return row
    done = {**row, **given}
    for name, how in make.items():
        if name in given:
            continue
        try:
            done[name] = _file(how, done, root) if how.file is not None else _MAKERS[how.made_by](how, done)
        except DataError as error:
            raise type(error)(f"make.{name}: {error.reason}", path=error.path) from error
    return done


def check_make(make: Mapping[str, MadeColumn]) -> None:
    """ConfigError for a text that is no template and for a regular expression that is none."""
    for name, how in make.items():
        for key, template in (("text", how.text), ("file", how.file)):
            problem = None if template is None else row_text_problem(template)
            if problem is not None:
                raise ConfigError(f"card.make.{name}.{key} {problem}")
        try:
            re.compile(how.strip or "")
        except re.error as error:
            raise ConfigError(f"card.make.{name}.strip is no regular expression: {error}") from error
        if how.items is not None and "{n}" not in how.named_as:
            raise ConfigError(f"card.make.{name}.named_as: {how.named_as!r} has no {{n}}, the item's number")
        if "{letter}" not in how.style or "{option}" not in how.style:
            raise ConfigError(f"card.make.{name}.style: {how.style!r} must hold {{letter}} and {{option}}")


def lookup(row: Mapping[str, Any], column: str) -> Any:
    """The value of a column, null where it is absent; `a.b` is b inside the mapping a, unless a column has that name.

    >>> lookup({"reward_model": {"ground_truth": "7"}}, "reward_model.ground_truth")
    '7'
    """
    if column in row or "." not in column:
        return row.get(column)
    value: Any = row
    for key in column.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _value(row: Mapping[str, Any], column: str) -> Any:
    """As `lookup`, but a column that the row does not have is an error; an empty text is null."""
    value = lookup(row, column)
    if value is None and column.split(".", maxsplit=1)[0] not in row:
        raise DataError(f"no column {column!r}; columns present: {', '.join(row) or 'none'}")
    return None if value == "" else value


def _text(how: MadeColumn, row: Mapping[str, Any]) -> str | None:
    assert how.text is not None
    return row_text(how.text, row) or None


def _file(how: MadeColumn, row: Mapping[str, Any], root: Path | None) -> str | None:
    """Null where there is no name. What is named and not there is an error: a prompt without it asks something else."""
    assert how.file is not None
    name = row_text(how.file, row)
    if not name or root is None:
        return None
    path = root / name
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError) as error:
        raise MissingMediaError(f"no file {path}", path=str(path)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}; it must be UTF-8 text") from error
    return spoken_lines(text) if path.suffix.lower() in (".srt", ".vtt") else text


def spoken_lines(subtitles: str) -> str:
    """What subtitles say, a line each, without numbers, times, marks and notes.

    >>> spoken_lines("1\\n00:00:01,000 --> 00:00:02,000\\n<i>Hello.</i>\\n\\n2\\n00:03.000 --> 00:04.000\\n- 7\\n")
    'Hello.\\n- 7'
    """
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", subtitles.replace("\r\n", "\n")):
        said = block.partition("-->")[2].splitlines()[1:]
        lines += [text for line in said if (text := re.sub(r"<[^>]*>|\{\\[^}]*\}", "", line).strip())]
    return "\n".join(lines)


def _items(how: MadeColumn, row: Mapping[str, Any]) -> list[Any] | None:
    assert how.items is not None
    if isinstance(how.items, str):
        value = _value(row, how.items)
        items = None if value is None else _as_list(value, how.items, alone=how.alone)
    else:
        items = _filled(row, how.items)
    if items is None or how.strip is None:
        found = items
    else:
        found = [re.sub(f"^(?:{how.strip})", "", item) if isinstance(item, str) else item for item in items]
    return found if found is None or how.named_in is None else _named(found, how, row)


def _filled(row: Mapping[str, Any], columns: Sequence[str]) -> list[Any]:
    """Values up to the first empty one. What comes after a gap would get another letter or number than it has."""
    values = [_value(row, column) for column in columns]
    count = next((n for n, value in enumerate(values) if value is None), len(values))
    after = next(
        (column for column, value in zip(columns[count:], values[count:], strict=True) if value is not None), ""
    )
    if after:
        raise DataError(f"column {columns[count]!r} is empty and {after!r} is not; mend the row")
    return values[:count]


def _named(items: Sequence[Any], how: MadeColumn, row: Mapping[str, Any]) -> list[Any]:
    """The items that a text names, in the order in which it does, each as often as it does."""
    assert how.named_in is not None
    before, after = map(re.escape, how.named_as.split("{n}"))
    numbers = [int(n) for n in re.findall(f"{before}([0-9]{{1,4}}){after}", str(_value(row, how.named_in) or ""))]
    for number in numbers:
        if not 1 <= number <= len(items):
            named = how.named_as.replace("{n}", str(number))
            raise DataError(f"column {how.named_in!r} names {named}, but the row has {len(items)}; mend the row")
    return [items[number - 1] for number in numbers]


def _as_list(value: Any, column: str, *, alone: bool = False) -> list[Any]:
    """A list, or one written as text: JSON, or as Python writes it. alone: anything else is a list of one."""
    read = _literal(value) if isinstance(value, str) else value
    if alone and not isinstance(read, list | tuple):
        return [value]
    if not isinstance(read, list | tuple):
        raise DataError(f"column {column!r} must hold a list, maybe written as text, not {value!r:.80}")
    return list(read)


def _literal(text: str) -> Any:
    """The value that a dataset wrote as text; null where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes that begin no escape, as in LaTeX
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _lettered(how: MadeColumn, row: Mapping[str, Any]) -> str | None:
    assert how.lettered is not None
    value = _value(row, how.lettered)
    if value is None:
        return None
    # The option is put in last: what it says is no part of the style.
    return "\n".join(
        how.style.replace("{letter}", label).replace("{option}", text)
        for label, text in _options(value, how.lettered).items()
    )


def _options(value: Any, column: str) -> dict[str, str]:
    """Texts by letter; a mapping has letters of its own."""
    if isinstance(value, Mapping):
        return {str(label): str(text) for label, text in value.items() if text is not None}
    items = _as_list(value, column)
    if len(items) > len(_LETTERS):
        raise DataError(f"column {column!r} has {len(items)} options; there are {len(_LETTERS)} letters")
    return dict(zip(_LETTERS, map(str, items), strict=False))


def _letter(how: MadeColumn, row: Mapping[str, Any]) -> Any:
    """A letter; what a row without options answers stays as it is."""
    assert how.letter is not None
    value = _value(row, how.letter)
    if value is None:
        return None
    if how.counted_from is not None:
        place = _as_number(value, how.letter) - how.counted_from
        if not 0 <= place < len(_LETTERS) or place != int(place):
            raise DataError(f"column {how.letter!r} is {value!r}, no number of an option from {how.counted_from} on")
        return _LETTERS[int(place)]
    assert how.options is not None  # checked with the card
    listed = _value(row, how.options)
    options = {} if listed is None else _options(listed, how.options)
    if not options:
        return value
    found = [label for label, text in options.items() if text.strip() == str(value).strip()]
    if not found:
        raise DataError(
            f"column {how.letter!r} is {value!r:.80}, which is none of the options {list(options.values())}"
        )
    return found[0]


def _number(how: MadeColumn, row: Mapping[str, Any]) -> int | float | None:
    assert how.number is not None
    value = _value(row, how.number)
    return None if value is None else _as_number(value, how.number)


def _as_number(value: Any, column: str) -> int | float:
    """A number, or one written as text; commas between thousands are left out."""
    number = value
    if isinstance(value, str):
        text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", value.strip())
        try:
            number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,4000}", text) else float(text)
        except ValueError:
            number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        shown = f"{value!r:.80}" if isinstance(value, str | float) else type_words(value)
        raise DataError(f"column {column!r} must hold a number, maybe as text, not {shown}")
    return number


def _box(how: MadeColumn, row: Mapping[str, Any]) -> list[float] | None:
    assert how.box is not None
    if isinstance(how.box, str):
        value = _value(row, how.box)
        numbers = None if value is None else _as_list(value, how.box)
        columns = (how.box,) * (0 if numbers is None else len(numbers))
    else:
        numbers, columns = [_value(row, column) for column in how.box], how.box
    if numbers is None or all(number is None for number in numbers):
        return None
    if len(numbers) != 4:
        raise DataError(f"column {how.box!r} must hold four numbers, not {len(numbers)}")
    x1, y1, third, fourth = (_as_number(number, column) for number, column in zip(numbers, columns, strict=True))
    return [x1, y1, x1 + third, y1 + fourth] if how.form == "xywh" else [x1, y1, third, fourth]


def _translate(how: MadeColumn, row: Mapping[str, Any]) -> Any:
    assert how.translate is not None
    value = _value(row, how.translate)
    if value is None:
        return None
    if str(value) not in how.to:
        known = ", ".join(map(repr, how.to))
        raise DataError(f"column {how.translate!r} is {value!r:.80}; `to` knows {known}; add it there")
    return how.to[str(value)]


def _mapping(how: MadeColumn, row: Mapping[str, Any]) -> dict[str, Any]:
    assert how.mapping is not None
    return {key: _value(row, column) for key, column in how.mapping.items()}


_MAKERS: dict[str, Callable[[MadeColumn, Mapping[str, Any]], Any]] = {
    "text": _text,
    "items": _items,
    "lettered": _lettered,
    "letter": _letter,
    "number": _number,
    "box": _box,
    "translate": _translate,
    "mapping": _mapping,
}
