"""What a cell of a table means, and whether two lists of cells mean the same. Pure.

A value is a number, a date, or a text; values of different kinds never agree, and what is written differently but
means the same does: `1,200.0` and `$1200`, `May 5, 2012` and `2012-05-05`, `"São Paulo"` and `sao paulo`.
"""

from __future__ import annotations

import datetime
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from mmrl.scoring.literals import LIMIT, is_number

Value = tuple[str, str]
"""Its kind (`number`, `date`, `text`) and its normal form; equal for values that mean the same."""

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = rf"({'|'.join(f'{m[:3]}(?:{m[3:]})?' if len(m) > 3 else m for m in _MONTHS)}|sept)\.?"
_DATES = (
    re.compile(r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"),
    re.compile(rf"(?P<name>{_MONTH}) (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<year>\d{{4}}))?"),
    re.compile(rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)? (?P<name>{_MONTH})(?:,? (?P<year>\d{{4}}))?"),
    re.compile(rf"(?P<name>{_MONTH}),? (?P<year>\d{{4}})"),
)
_NUMBER = re.compile(r"[-+]?(?:[$€£¥]\s?)?[-+]?(?:\d{1,3}(?:,\d{3})+|\d{1,30})?(?:\.\d{0,30})?(?:e[-+]?\d{1,2})?\s?%?")
_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u2212": "-"})
_DIGITS = 9  # significant digits in which two numbers must agree


def value_of(cell: str | int | float) -> Value:
    """The value that a cell holds. A percent sign, a currency sign and thousands commas do not count; units do.

    >>> value_of("1,200.0"), value_of("45%"), value_of("5 May 2012"), value_of("  The “Big” Apple. ")
    (('number', '1200'), ('number', '45'), ('date', '2012-05-05'), ('text', 'the big apple'))
    >>> value_of("Boeing 737"), value_of("May 2012"), value_of("3:2")
    (('text', 'boeing 737'), ('date', '2012-05-??'), ('text', '3:2'))
    """
    text = _plain(str(cell))
    return _number(text) or _date(text) or ("text", text)


def _plain(text: str) -> str:
    """Lower case, without accents, quotes, footnote marks, and blanks or a stop at the ends."""
    bare = unicodedata.normalize("NFKD", text.translate(_QUOTES)[:LIMIT])
    bare = "".join(c for c in bare if not unicodedata.combining(c)).translate(_QUOTES).casefold()
    bare = re.sub(r"\[(?:\d{1,3}|[a-z]|note \d{1,3})\]", "", bare).replace('"', "")
    return " ".join(bare.split()).strip(".' ") if not _NUMBER.fullmatch(bare.strip()) else bare.strip()


def _number(text: str) -> Value | None:
    if not _NUMBER.fullmatch(text) or not re.search(r"\d", text):
        return None
    try:
        value = Decimal(re.sub(r"[,$€£¥%\s]", "", text))
    except InvalidOperation:
        return None
    rounded = Decimal(f"{value:.{_DIGITS - 1}e}").normalize()
    return "number", "0" if rounded == 0 else f"{rounded:f}"


def _date(text: str) -> Value | None:
    """The date that the whole text is; parts it lacks are `??`. A day and month in digits alone could be either."""
    match = next((m for m in (pattern.fullmatch(text) for pattern in _DATES) if m), None)
    if match is None:
        return None
    parts = match.groupdict()
    name = parts.get("name")
    month = int(parts["month"]) if name is None else next(n for n, m in enumerate(_MONTHS, 1) if m[:3] == name[:3])
    year, day = parts.get("year"), parts.get("day")
    try:
        datetime.date(int(year or 2000) or 1, month, int(day or 1))
    except ValueError:
        return None
    return "date", f"{year or '????'}-{month:02d}-{f'{int(day):02d}' if day else '??'}"


def read_values(text: str) -> list[list[Value]]:
    """The lists of values that a text may be, at most two: one answer may hold commas (`Washington, D.C.`).

    JSON (a list, one value, or an object with the one key `answer`), in a code fence or not; else values separated by
    lines, `|` or `;`; else the whole text as one value, and its parts between commas.

    >>> read_values('{"answer": ["Rome", 3]}'), read_values("Rome | 3") == read_values("Rome\\n3")
    ([[('text', 'rome'), ('number', '3')]], True)
    >>> read_values("Washington, D.C.")
    [[('text', 'washington, d.c')], [('text', 'washington'), ('text', 'd.c')]]
    """
    if len(text) > LIMIT:
        return []
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", text.strip(), re.DOTALL)
    clean = fenced[1] if fenced else text.strip()
    try:
        found = json.loads(clean)
    except (ValueError, RecursionError):
        return _separated(clean)
    values = values_in(found)
    return [] if values is None else [values]


def _separated(text: str) -> list[list[Value]]:
    parts = [re.sub(r"^[-*•]\s+", "", p.strip()) for p in re.split(r"[\n|;]", text)]
    if len(parts) > 1:
        return [[value_of(p) for p in parts if p]]
    by_comma = [p for p in re.split(r",\s+|,(?!\d{3})", text) if p.strip()]
    whole = [value_of(text)]
    return [whole, [value_of(p) for p in by_comma]] if len(by_comma) > 1 else [whole]


def values_in(found: Any) -> list[Value] | None:
    """The values of a JSON value; None for one with anything but texts and numbers, or without any."""
    if isinstance(found, dict):
        found = found["answer"] if found.keys() == {"answer"} else None
    cells = found if isinstance(found, list | tuple) else [found]
    if not cells or not all(isinstance(c, str) or is_number(c) for c in cells):
        return None
    values = [value_of(c) for c in cells]
    return values if all(text for _, text in values) else None


def agree(found: Sequence[Value], gold: Sequence[Value], *, ordered: bool = False) -> bool:
    """Whether two lists mean the same: each value as often in both, and in one order where `ordered`."""
    return list(found) == list(gold) if ordered else Counter(found) == Counter(gold)


def overlap_f1(found: Sequence[Value], gold: Sequence[Value]) -> float:
    """F1 of the values, with repetition: 2 * common / (found + gold)."""
    common = Counter(found) & Counter(gold)
    return 2 * common.total() / (len(found) + len(gold))
