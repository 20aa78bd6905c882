"""Puzzles of statements: knights and knaves, Boolean expressions, orders, and tables of attributes (zebra)."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from mmrl.data.puzzles.puzzle import LogicPuzzle, Made, entry, read_items, read_pairs, texts

NAMES = ("Ann", "Bob", "Cleo", "Dan", "Eva", "Finn", "Gil", "Hana")
_LEAST_CHANCE = 0.001


def _listed(chance: float) -> float:
    return chance if chance >= _LEAST_CHANCE else 0.0


@dataclass(frozen=True)
class Knights(LogicPuzzle):
    """Knights tell the truth, knaves lie. A statement is a nested list over names:

    ["knight", name], ["not", s], ["and", s, s], ["or", s, s], ["same", s, s], ["count", number of knights]
    """

    KIND: ClassVar[str] = "knights"
    names: tuple[str, ...]
    statements: tuple[Any, ...]

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        names = NAMES[: level + 2]
        while True:
            spec = {"names": list(names), "statements": [_statement(rng, names, depth=level // 3) for _ in names]}
            puzzle = cls.read(spec)
            worlds = puzzle.worlds()
            if len(worlds) == 1:
                break
        said = "\n".join(
            f"{name}: \u201c{_in_words(s)}.\u201d" for name, s in zip(names, puzzle.statements, strict=True)
        )
        question = (
            "On an island knights always tell the truth and knaves always lie. "
            f"{len(names)} islanders speak:\n{said}\nWho is what? Answer as in Ann: knight, Bob: knave."
        )
        solution = ", ".join(f"{n}: {'knight' if v else 'knave'}" for n, v in zip(names, worlds[0], strict=True))
        return Made(question, spec, solution)

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        names = texts(spec.get("names"), "'names'")
        statements = entry(spec, "statements", list)
        if len(statements) != len(names) or len(names) > 12:
            raise ValueError("'statements' needs one statement for each of at most 12 names")
        for statement in statements:
            _check_statement(statement, names, depth=0)
        return cls(names, tuple(statements))

    def worlds(self) -> list[tuple[bool, ...]]:
        """All ways in which the statements fit: of each name in turn, whether it is a knight."""
        return [w for w in itertools.product((True, False), repeat=len(self.names)) if self._fits(w)]

    def _fits(self, world: Sequence[bool]) -> bool:
        knights = dict(zip(self.names, world, strict=True))
        return all(_holds(s, knights) == v for s, v in zip(self.statements, world, strict=True))

    def is_solved_by(self, text: str) -> bool:
        said = {name.casefold(): value.casefold() for name, value in (read_pairs(text) or {}).items()}
        if said.keys() != {name.casefold() for name in self.names} or not set(said.values()) <= {"knight", "knave"}:
            return False
        return self._fits([said[name.casefold()] == "knight" for name in self.names])

    def chance(self) -> float:
        return _listed(0.5 ** len(self.names))


def _statement(rng: random.Random, names: Sequence[str], *, depth: int) -> list[Any]:
    if depth <= 0:
        kind = rng.choice(("knight", "knave", "knave", "same", "count"))
    else:
        kind = rng.choice(("and", "or", "same", "not", "knave"))
    if kind == "count":
        return ["count", rng.randint(1, len(names) - 1)]
    if kind in ("knight", "knave"):
        about = ["knight", rng.choice(names)]
        return about if kind == "knight" else ["not", about]
    if kind == "not":
        return ["not", _statement(rng, names, depth=depth - 1)]
    if depth <= 0:
        return ["same", *(["knight", name] for name in rng.sample(names, 2))]
    return [kind, _statement(rng, names, depth=depth - 1), _statement(rng, names, depth=depth - 1)]


def _check_statement(statement: Any, names: Sequence[str], *, depth: int) -> None:
    """ValueError for what is no statement about these names."""
    if isinstance(statement, list | tuple) and statement and depth <= 8:
        kind, parts = statement[0], statement[1:]
        if kind == "knight" and len(parts) == 1 and parts[0] in names:
            return
        if kind == "count" and len(parts) == 1 and type(parts[0]) is int:
            return
        if (kind == "not" and len(parts) == 1) or (kind in ("and", "or", "same") and len(parts) == 2):
            for part in parts:
                _check_statement(part, names, depth=depth + 1)
            return
    raise ValueError(f"{statement!r} is no statement about {', '.join(names)}")


def _holds(statement: Sequence[Any], knights: Mapping[str, bool]) -> bool:
    kind, *parts = statement
    if kind == "knight":
        return knights[parts[0]]
    if kind == "count":
        return sum(knights.values()) == parts[0]
    values = [_holds(part, knights) for part in parts]
    if kind == "not":
        return not values[0]
    return {"and": all(values), "or": any(values), "same": values[0] == values[-1]}[kind]


def _in_words(statement: Sequence[Any]) -> str:
    kind, *parts = statement
    if kind == "knight":
        return f"{parts[0]} is a knight"
    if kind == "count":
        return f"exactly {parts[0]} of us {'is a knight' if parts[0] == 1 else 'are knights'}"
    if kind == "not":
        return f"{parts[0][1]} is a knave" if parts[0][0] == "knight" else f"it is false that ({_in_words(parts[0])})"
    first, second = (_in_words(p) if p[0] in ("knight", "count") else f"({_in_words(p)})" for p in parts)
    return f"{first} if and only if {second}" if kind == "same" else f"{first} {kind} {second}"


@dataclass(frozen=True)
class Satisfy(LogicPuzzle):
    """Values of variables that make an expression true; clauses are lists of literals (3: x3, -3: not x3)."""

    KIND: ClassVar[str] = "satisfy"
    count: int
    clauses: tuple[tuple[int, ...], ...]

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        count, width = level + 3, (2, 2, 3, 3, 3)[level - 1]
        hidden = [rng.random() < 0.5 for _ in range(count)]
        clauses: list[list[int]] = []
        worlds = list(itertools.product((True, False), repeat=count))
        while len(worlds) > 2:
            clause = [v * rng.choice((1, -1)) for v in sorted(rng.sample(range(1, count + 1), width))]
            left = [w for w in worlds if _is_met(clause, w)]
            if _is_met(clause, hidden) and len(left) < len(worlds):
                clauses.append(clause)
                worlds = left
        shown = " and ".join("(" + " or ".join(_literal(v) for v in clause) + ")" for clause in clauses)
        question = (
            f"Find values of {', '.join(f'x{n + 1}' for n in range(count))} that make this expression true:\n{shown}\n"
            "Answer as in x1: true, x2: false."
        )
        solution = ", ".join(f"x{n + 1}: {str(value).lower()}" for n, value in enumerate(hidden))
        return Made(question, {"count": count, "clauses": clauses}, solution)

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        count, clauses = entry(spec, "count", int), entry(spec, "clauses", list)
        if not 1 <= count <= 200:
            raise ValueError(f"'count' is {count}, not 1 to 200")
        for clause in clauses:
            good = isinstance(clause, list | tuple) and clause
            if not good or not all(type(v) is int and 1 <= abs(v) <= count for v in clause):
                raise ValueError(f"{clause!r} is not a list of variables from 1 to {count}, negative for not")
        return cls(count, tuple(map(tuple, clauses)))

    def is_solved_by(self, text: str) -> bool:
        said = {name.casefold(): value.casefold() for name, value in (read_pairs(text) or {}).items()}
        names = [f"x{n + 1}" for n in range(self.count)]
        if said.keys() != set(names) or not set(said.values()) <= {"true", "false"}:
            return False
        world = [said[name] == "true" for name in names]
        return all(_is_met(clause, world) for clause in self.clauses)

    def chance(self) -> float:
        """For few variables the share of values that fit."""
        if self.count > 10:
            return 0.0
        worlds = itertools.product((True, False), repeat=self.count)
        return _listed(sum(all(_is_met(c, w) for c in self.clauses) for w in worlds) / 2**self.count)


def _is_met(clause: Sequence[int], world: Sequence[bool]) -> bool:
    return any(world[abs(v) - 1] == (v > 0) for v in clause)


def _literal(variable: int) -> str:
    return f"x{variable}" if variable > 0 else f"not x{-variable}"


@dataclass(frozen=True)
class Clue:
    """What is said about the places of two things a and b (counted from 0), or of a alone: its test and its words.

    words: with {a}, {b} and, for a place, {n}.
    """

    holds: Callable[[int, int], bool]
    words: str


CLUES: dict[str, Clue] = {
    "same": Clue(lambda a, b: a == b, "{a} and {b} are in the same house"),
    "before": Clue(lambda a, b: a < b, "{a} is somewhere before {b}"),
    "next": Clue(lambda a, b: b - a == 1, "{a} is directly before {b}"),
    "beside": Clue(lambda a, b: abs(a - b) == 1, "{a} and {b} are next to each other"),
    "at": Clue(lambda a, b: a == b, "{a} is at place {n}"),
    "not_at": Clue(lambda a, b: a != b, "{a} is not at place {n}"),
}


def read_clues(value: Any, things: Sequence[str], *, size: int) -> tuple[tuple[str, str, str | int], ...]:
    """Clues `[kind, thing, thing or place from 1]`; ValueError for anything else."""
    clues = []
    for clue in value if isinstance(value, list | tuple) else ():
        if not isinstance(clue, list | tuple) or len(clue) != 3 or clue[0] not in CLUES or clue[1] not in things:
            raise ValueError(f"{clue!r} is no clue [{' | '.join(CLUES)}, thing, thing or place]")
        about = clue[2]
        at_place = type(about) is int and 1 <= about <= size
        if not (at_place if clue[0] in ("at", "not_at") else about in things):
            raise ValueError(f"{clue!r}: {about!r} is neither a thing nor a place of this puzzle")
        clues.append((clue[0], clue[1], about))
    if not clues:
        raise ValueError("'clues' is not a list of clues")
    return tuple(clues)


def clue_holds(clue: tuple[str, str, str | int], place: Mapping[str, int]) -> bool:
    """Whether a clue holds where `place` gives the place of each thing, from 0."""
    kind, thing, about = clue
    return CLUES[kind].holds(place[thing], about - 1 if isinstance(about, int) else place[about])


def _clue_words(clue: tuple[str, str, str | int]) -> str:
    return CLUES[clue[0]].words.format(a=clue[1], b=clue[2], n=clue[2]) + "."


def _telling_clues(
    rng: random.Random, candidates: Sequence[list[Any]], worlds: Sequence[Mapping[str, int]]
) -> list[list[Any]]:
    """Clues that leave one world, each of which excludes some that those before it leave."""
    chosen: list[list[Any]] = []
    for clue in rng.sample(candidates, len(candidates)):
        left = [w for w in worlds if clue_holds((clue[0], clue[1], clue[2]), w)]
        if len(left) < len(worlds):
            chosen.append(clue)
            worlds = left
        if len(worlds) == 1:
            break
    assert len(worlds) == 1, "the candidates say of every thing where it is, or where it is not"
    return chosen


def _true_clues(rng: random.Random, kinds: Sequence[str], truth: Mapping[str, int], size: int) -> list[list[Any]]:
    """Every true clue of these kinds between two things or about one, in random order."""
    pairs = [[k, a, b] for k in kinds for a, b in itertools.permutations(truth, 2) if k not in ("at", "not_at")]
    places = [[k, a, n] for k in kinds for a in truth for n in range(1, size + 1) if k in ("at", "not_at")]
    found = [c for c in (*pairs, *places) if clue_holds((c[0], c[1], c[2]), truth)]
    return rng.sample(found, len(found))


@dataclass(frozen=True)
class Ordering(LogicPuzzle):
    """Things in a row by clues about their places. Any order that fits the clues is right."""

    KIND: ClassVar[str] = "ordering"
    things: tuple[str, ...]
    clues: tuple[tuple[str, str, str | int], ...]

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        things: list[str] = rng.sample(NAMES, level + 2)
        truth = {thing: place for place, thing in enumerate(things)}
        worlds = [dict(zip(things, p, strict=True)) for p in itertools.permutations(range(len(things)))]
        kinds = ("before", "next", "at", "not_at") if level < 3 else ("before", "beside", "not_at")
        candidates = _true_clues(rng, kinds, truth, len(things))
        clues = _telling_clues(rng, candidates, worlds)
        spec = {"things": sorted(things), "clues": clues}
        puzzle = cls.read(spec)
        question = (
            f"{', '.join(puzzle.things)} stand in a row, the first at place 1.\n"
            + "\n".join(map(_clue_words, puzzle.clues))
            + "\nIn which order do they stand? Answer with the names separated by commas, the first one first."
        )
        return Made(question, spec, ", ".join(things))

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        things = texts(spec.get("things"), "'things'")
        return cls(things, read_clues(spec.get("clues"), things, size=len(things)))

    def is_solved_by(self, text: str) -> bool:
        names = {thing.casefold(): thing for thing in self.things}
        order = [item.casefold() for item in read_items(text) or ()]
        if sorted(order) != sorted(names):
            return False
        place = {names[name]: index for index, name in enumerate(order)}
        return all(clue_holds(clue, place) for clue in self.clues)

    def chance(self) -> float:
        return _listed(1 / math.factorial(len(self.things)))


_ATTRIBUTES = {
    "colour": ("red", "blue", "green", "white", "yellow"),
    "pet": ("cat", "dog", "fish", "horse", "bird"),
    "drink": ("tea", "coffee", "milk", "water", "juice"),
    "sport": ("chess", "golf", "rowing", "judo", "tennis"),
}


@dataclass(frozen=True)
class Zebra(LogicPuzzle):
    """Houses in a row with one value of every attribute each, by clues (Einstein's riddle)."""

    KIND: ClassVar[str] = "zebra"
    attributes: Mapping[str, tuple[str, ...]]
    clues: tuple[tuple[str, str, str | int], ...]

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        size, count = ((3, 2), (3, 3), (4, 2), (4, 3), (4, 3))[level - 1]
        chosen = rng.sample(list(_ATTRIBUTES), count)
        rows = {name: rng.sample(_ATTRIBUTES[name][:size], size) for name in chosen}
        truth = {value: place for values in rows.values() for place, value in enumerate(values)}
        kinds = ("same", "next", "at", "not_at", "beside") if level < 5 else ("same", "before", "beside", "not_at")
        clues = _zebra_clues(rng, _true_clues(rng, kinds, truth, size), rows)
        spec = {"attributes": {name: sorted(values) for name, values in rows.items()}, "clues": clues}
        puzzle = cls.read(spec)
        values = "\n".join(f"{name}: {', '.join(values)}" for name, values in puzzle.attributes.items())
        question = (
            f"{size} houses stand in a row, the first at place 1. "
            f"Each has one {', one '.join(chosen)}, all different.\n"
            f"{values}\n"
            + "\n".join(map(_clue_words, puzzle.clues))
            + "\nAnswer with one line for each attribute: its "
            "name, a colon, and its values from the first house to the last, separated by commas."
        )
        return Made(question, spec, "\n".join(f"{name}: {', '.join(values)}" for name, values in rows.items()))

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        table = entry(spec, "attributes", dict)
        attributes = {name: texts(values, f"attribute {name!r}") for name, values in table.items()}
        sizes = {len(values) for values in attributes.values()}
        every = [value for values in attributes.values() for value in values]
        if len(sizes) != 1 or len(set(every)) != len(every):
            raise ValueError("'attributes' have different numbers of values, or share one")
        return cls(attributes, read_clues(spec.get("clues"), every, size=sizes.pop()))

    def is_solved_by(self, text: str) -> bool:
        table = _read_table(text)
        if table is None or table.keys() != {name.casefold() for name in self.attributes}:
            return False
        place: dict[str, int] = {}
        for name, values in self.attributes.items():
            given = table[name.casefold()]
            if sorted(given) != sorted(v.casefold() for v in values):
                return False
            place |= {value: given.index(value.casefold()) for value in values}
        return all(clue_holds(clue, place) for clue in self.clues)

    def chance(self) -> float:
        size = len(next(iter(self.attributes.values())))
        return _listed(math.factorial(size) ** -len(self.attributes))


def _zebra_clues(
    rng: random.Random, candidates: Sequence[list[Any]], rows: Mapping[str, Sequence[str]]
) -> list[list[Any]]:
    """Clues that leave one table."""
    orders = [list(itertools.permutations(sorted(values))) for values in rows.values()]
    worlds = [
        {value: place for order in table for place, value in enumerate(order)} for table in itertools.product(*orders)
    ]
    return _telling_clues(rng, candidates, worlds)


def _read_table(text: str) -> dict[str, list[str]] | None:
    """Lines `name: value, value, ..`, in lower case; None where a name comes twice."""
    lines = [line.strip(" \t*-|") for line in re.split(r"[\n;]", text) if line.strip()]
    found = [line.casefold().partition(":") for line in lines]
    if not all(colon for _, colon, _ in found) or len({name for name, _, _ in found}) != len(found):
        return None
    return {name.strip(): [v.strip(" .") for v in values.split(",")] for name, _, values in found}
