"""What all logic puzzles share: their form, what reads a spec, and what reads a solution from a text. Pure."""

from __future__ import annotations

import json
import random
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

LEVELS = (1, 2, 3, 4, 5)
LONGEST = 5000  # characters of a solution: none of the puzzles needs a fifth of it
_PAIR = re.compile(r"\s*(\w+)\s*(?::|=|\bis\b)\s*(?:an?\s+)?(\w+)[\s,;.]*(?:and\b)?")


@dataclass(frozen=True, slots=True)
class Made:
    """A puzzle from a generator: what is asked, the spec that decides what solves it, and one solution."""

    question: str
    spec: dict[str, Any]
    solution: str


class LogicPuzzle(ABC):
    """One puzzle, read from its spec (plain JSON). Subclasses are frozen dataclasses."""

    KIND: ClassVar[str]

    @classmethod
    @abstractmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        """A puzzle of a difficulty from 1 to 5."""

    @classmethod
    @abstractmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        """The puzzle of a spec. ValueError, saying what is wrong with the spec."""

    @abstractmethod
    def is_solved_by(self, text: str) -> bool:
        """Whether a text of at most LONGEST characters is a solution, any one. Never raises."""

    def chance(self) -> float:
        """How often a solution of the right form, drawn at random, is right; 0 where that is below a thousandth."""
        return 0.0


def entry(spec: Mapping[str, Any], key: str, kind: type | tuple[type, ...]) -> Any:
    """An entry of a spec; ValueError where it is missing or of another type."""
    value = spec.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{key!r} is {value!r}, not {_name(kind)}")
    return value


def _name(kind: type | tuple[type, ...]) -> str:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join({int: "a whole number", str: "a text", list: "a list"}.get(k, k.__name__) for k in kinds)


def integers(value: Any, what: str) -> tuple[int, ...]:
    """A list of whole numbers; ValueError naming `what` otherwise."""
    if not isinstance(value, list | tuple) or not all(type(v) is int for v in value):
        raise ValueError(f"{what} is {value!r}, not a list of whole numbers")
    return tuple(value)


def texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of different texts; ValueError naming `what` otherwise."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(v, str) and v for v in value):
        raise ValueError(f"{what} is {value!r}, not a list of texts")
    if len(set(value)) != len(value):
        raise ValueError(f"{what} repeats an entry: {value!r}")
    return tuple(value)


def square(value: Any, what: str, *, size: int, least: int, most: int) -> tuple[tuple[int, ...], ...]:
    """A size x size grid of whole numbers from least to most; ValueError naming `what` otherwise."""
    rows = tuple(integers(row, what) for row in value) if isinstance(value, list | tuple) else ()
    if len(rows) != size or any(len(row) != size for row in rows):
        raise ValueError(f"{what} is not {size} rows of {size} numbers")
    if not all(least <= cell <= most for row in rows for cell in row):
        raise ValueError(f"{what} has a number outside {least} to {most}")
    return rows


def read_digits(text: str, *, size: int) -> tuple[tuple[int, ...], ...] | None:
    """A size x size grid of digits, with or without blanks, commas, brackets and rules; None for anything else.

    >>> read_digits("1 2\\n2 1", size=2), read_digits("[[1, 2], [2, 1]]", size=2), read_digits("1 2 2", size=2)
    (((1, 2), (2, 1)), ((1, 2), (2, 1)), None)
    """
    digits = re.sub(r"[\s,|\[\]+\-]", "", text)
    if not re.fullmatch(r"[0-9]+", digits) or len(digits) != size * size:
        return None
    return tuple(tuple(int(d) for d in digits[size * row : size * (row + 1)]) for row in range(size))


def read_items(text: str) -> tuple[str, ...] | None:
    """Things in a row: JSON, or text separated by commas, arrows, `<`, lines or blanks; None where a thing is empty.

    >>> read_items("kiwi, fig"), read_items('["kiwi", "fig"]'), read_items("1. kiwi\\n2. fig"), read_items("kiwi fig")
    (('kiwi', 'fig'), ('kiwi', 'fig'), ('kiwi', 'fig'), ('kiwi', 'fig'))
    """
    value = _json(text)
    if isinstance(value, list):
        items = [str(v).strip() for v in value if isinstance(v, str | int)]
        return tuple(items) if items and len(items) == len(value) else None
    separator = next((s for s in (r"->|→", "<", ",", "\n") if re.search(s, text.strip())), r"\s+")
    items = [re.sub(r"^\d+[.)]\s+", "", part.strip()).strip(" .") for part in re.split(separator, text.strip())]
    return tuple(items) if all(items) else None


def read_pairs(text: str) -> dict[str, str] | None:
    """Names with values: JSON, or `name: value`, `name = value`, `name is value`; None where a name comes twice.

    >>> read_pairs("Ann: knight, Bob is a knave"), read_pairs("S=9 E=5"), read_pairs("A: 1, A: 2")
    ({'Ann': 'knight', 'Bob': 'knave'}, {'S': '9', 'E': '5'}, None)
    """
    value = _json(text)
    if isinstance(value, dict):
        plain = all(isinstance(v, str | int) for v in value.values())
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in value.items()} if plain else None
    found: list[tuple[str, str]] = []
    at = 0
    while (pair := _PAIR.match(text, at)) is not None:
        found.append((pair[1], pair[2]))
        at = pair.end()
    is_whole = not text[at:].strip()
    return dict(found) if found and is_whole and len({name for name, _ in found}) == len(found) else None


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return None


def _without_repeats(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)
