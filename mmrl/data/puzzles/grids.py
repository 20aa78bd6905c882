"""Puzzles on grids: sudoku, futoshiki, minesweeper, mazes. Rows and columns are counted from 1 in texts."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

from mmrl.data.puzzles.latin import Cell, Grid, fillings, groups_of, is_filled
from mmrl.data.puzzles.puzzle import LogicPuzzle, Made, entry, integers, read_digits, square

_MOVES = {"u": (-1, 0), "d": (1, 0), "l": (0, -1), "r": (0, 1)}


def _dug(
    full: Grid, rng: random.Random, *, most: int, groups: tuple[tuple[Cell, ...], ...], less: tuple[Any, ...] = ()
) -> Grid:
    """The filled grid with up to `most` cells emptied, as long as no second filling fits."""
    cells, left = [list(row) for row in full], most
    for row, column in rng.sample([(r, c) for r in range(len(full)) for c in range(len(full))], len(full) ** 2):
        if not left:
            break
        kept, cells[row][column] = cells[row][column], 0
        if len(list(islice(fillings(tuple(map(tuple, cells)), groups, less), 2))) == 1:
            left -= 1
        else:
            cells[row][column] = kept
    return tuple(map(tuple, cells))


def _shown(grid: Grid) -> str:
    return "\n".join(" ".join(str(n) if n else "." for n in row) for row in grid)


def _keeps(filled: Grid, givens: Grid) -> bool:
    return all(g in (0, f) for row, given in zip(filled, givens, strict=True) for f, g in zip(row, given, strict=True))


@dataclass(frozen=True)
class Sudoku(LogicPuzzle):
    """Rows, columns and boxes with every number once; 4x4 or 9x9. Any filling that keeps the givens is right."""

    KIND: ClassVar[str] = "sudoku"
    grid: Grid

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        size, empty = ((4, 6), (4, 10), (9, 30), (9, 42), (9, 50))[level - 1]
        box = 2 if size == 4 else 3
        groups = groups_of(size, box=box)
        full = next(fillings(((0,) * size,) * size, groups, rng=rng))
        grid = _dug(full, rng, most=empty, groups=groups)
        question = (
            f"Fill this sudoku so that every row, every column and every {box}x{box} box holds each number from 1 to "
            f"{size} once.\n{_shown(grid)}\nAnswer with the {size} rows, one a line."
        )
        return Made(question, {"grid": [list(row) for row in grid]}, _shown(full))

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        rows = entry(spec, "grid", list)
        if len(rows) not in (4, 9):
            raise ValueError(f"'grid' has {len(rows)} rows, not 4 or 9")
        return cls(square(rows, "'grid'", size=len(rows), least=0, most=len(rows)))

    def is_solved_by(self, text: str) -> bool:
        size = len(self.grid)
        filled = read_digits(text, size=size)
        groups = groups_of(size, box=2 if size == 4 else 3)
        return filled is not None and is_filled(filled, groups) and _keeps(filled, self.grid)


@dataclass(frozen=True)
class Futoshiki(LogicPuzzle):
    """Rows and columns with every number once, and pairs of neighbours of which the first is less."""

    KIND: ClassVar[str] = "futoshiki"
    grid: Grid
    less: tuple[tuple[Cell, Cell], ...]

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        size, signs = ((3, 3), (4, 4), (4, 7), (5, 7), (5, 10))[level - 1]
        full = next(fillings(((0,) * size,) * size, groups_of(size), rng=rng))
        beside = [((r, c), (r, c + 1)) for r in range(size) for c in range(size - 1)]
        below = [(a[::-1], b[::-1]) for a, b in beside]
        pairs = tuple(
            (a, b) if full[a[0]][a[1]] < full[b[0]][b[1]] else (b, a) for a, b in rng.sample(beside + below, signs)
        )
        grid = _dug(full, rng, most=size * size, groups=groups_of(size), less=pairs)
        rules = ", ".join(f"({a[0] + 1},{a[1] + 1}) < ({b[0] + 1},{b[1] + 1})" for a, b in pairs)
        question = (
            f"Fill this grid so that every row and every column holds each number from 1 to {size} once.\n"
            f"{_shown(grid)}\nThese hold for cells (row,column), counted from 1: {rules}. "
            f"Answer with the {size} rows, one a line."
        )
        spec = {"grid": [list(row) for row in grid], "less": [[*a, *b] for a, b in pairs]}
        return Made(question, spec, _shown(full))

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        rows = entry(spec, "grid", list)
        size = len(rows)
        if not 2 <= size <= 9:
            raise ValueError(f"'grid' has {size} rows, not 2 to 9")
        pairs = [integers(pair, "a pair of 'less'") for pair in entry(spec, "less", list)]
        if any(len(pair) != 4 or not all(0 <= n < size for n in pair) for pair in pairs):
            raise ValueError("a pair of 'less' is [row, column, row, column], counted from 0")
        grid = square(rows, "'grid'", size=size, least=0, most=size)
        return cls(grid, tuple(((p[0], p[1]), (p[2], p[3])) for p in pairs))

    def is_solved_by(self, text: str) -> bool:
        size = len(self.grid)
        filled = read_digits(text, size=size)
        return filled is not None and is_filled(filled, groups_of(size), self.less) and _keeps(filled, self.grid)


@dataclass(frozen=True)
class Minesweeper(LogicPuzzle):
    """Which closed cells (`?`) hold mines; an open cell counts those around it. Any placement that fits is right."""

    KIND: ClassVar[str] = "minesweeper"
    grid: tuple[str, ...]
    mines: int

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        size, count = 3 + level, (2, 3, 5, 7, 10)[level - 1]
        cells = [(r, c) for r in range(size) for c in range(size)]
        mines = set(rng.sample(cells, count))
        closed = mines | set(rng.sample([c for c in cells if c not in mines], size))
        grid = [
            "".join("?" if (r, c) in closed else str(_around(r, c, mines)) for c in range(size)) for r in range(size)
        ]
        question = (
            f"In this minesweeper grid {count} of the closed cells (?) hold mines; a number counts the mines in the up "
            "to eight cells around it.\n" + "\n".join(" ".join(row) for row in grid) + "\n"
            "Answer with the mines as (row, column), counted from 1, separated by commas."
        )
        solution = ", ".join(f"({r + 1}, {c + 1})" for r, c in sorted(mines))
        return Made(question, {"grid": grid, "mines": count}, solution)

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        rows, mines = entry(spec, "grid", list), entry(spec, "mines", int)
        if not rows or not all(isinstance(r, str) and re.fullmatch(r"[0-8?]+", r) for r in rows):
            raise ValueError("'grid' is not a list of rows of digits from 0 to 8 and ?")
        if len({len(r) for r in rows}) != 1 or len(rows) > 30 or len(rows[0]) > 30:
            raise ValueError("the rows of 'grid' differ in length, or there are more than 30")
        if not 1 <= mines <= "".join(rows).count("?"):
            raise ValueError(f"'mines' is {mines}, not 1 to the number of closed cells")
        return cls(tuple(rows), mines)

    def is_solved_by(self, text: str) -> bool:
        cells = _read_cells(text)
        if cells is None or len(cells) != self.mines or len(set(cells)) != self.mines:
            return False
        height, width = len(self.grid), len(self.grid[0])
        inside = all(0 <= r < height and 0 <= c < width and self.grid[r][c] == "?" for r, c in cells)
        return inside and all(
            mark == "?" or int(mark) == _around(r, c, set(cells))
            for r, row in enumerate(self.grid)
            for c, mark in enumerate(row)
        )


def _around(row: int, column: int, mines: set[Cell]) -> int:
    return sum((row + i, column + j) in mines for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)


def _read_cells(text: str) -> list[Cell] | None:
    """Pairs of numbers counted from 1, as cells counted from 0; None where anything else stands beside them."""
    if not re.fullmatch(r"[0-9\s,;()\[\].]*", text):
        return None
    numbers = [int(n) - 1 for n in re.findall(r"[0-9]{1,6}", text)]
    return list(zip(numbers[::2], numbers[1::2], strict=True)) if numbers and len(numbers) % 2 == 0 else None


@dataclass(frozen=True)
class Maze(LogicPuzzle):
    """A way from S to G past the walls (#) that enters no cell twice; the shortest, or any."""

    KIND: ClassVar[str] = "maze"
    grid: tuple[str, ...]
    shortest: bool

    @classmethod
    def make(cls, rng: random.Random, *, level: int) -> Made:
        size = 5 + 2 * level
        spec = {"grid": _with_ends(rng, _carved(rng, size=size, loops=level), least=size), "shortest": level >= 4}
        puzzle = cls.read(spec)
        wanted = "a shortest way" if puzzle.shortest else "a way that enters no cell twice"
        question = (
            f"Find {wanted} from S to G. # is a wall, . is free.\n" + "\n".join(puzzle.grid) + "\n"
            "Answer with the moves as letters: U up, D down, L left, R right, as in RRD."
        )
        return Made(question, spec, _shortest_way(puzzle.grid) or "")

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> Self:
        rows, shortest = entry(spec, "grid", list), spec.get("shortest", False)
        if not rows or not all(isinstance(r, str) and re.fullmatch(r"[#.SG]+", r) for r in rows):
            raise ValueError("'grid' is not a list of rows of #, ., S and G")
        if len({len(r) for r in rows}) != 1 or len(rows) > 60 or len(rows[0]) > 60:
            raise ValueError("the rows of 'grid' differ in length, or are longer or more than 60")
        if "".join(rows).count("S") != 1 or "".join(rows).count("G") != 1:
            raise ValueError("'grid' needs one S and one G")
        if not isinstance(shortest, bool):
            raise ValueError(f"'shortest' is {shortest!r}, not true or false")
        if _shortest_way(tuple(rows)) is None:
            raise ValueError("no way leads from S to G")
        return cls(tuple(rows), shortest)

    def is_solved_by(self, text: str) -> bool:
        words = re.sub(r"(?i)\b(up|down|left|right)\b", lambda m: m[1][0], text)
        moves = re.sub(r"[\s,>\-.]", "", words).casefold()
        if not re.fullmatch("[udlr]+", moves):
            return False
        (row, column), seen = _find(self.grid, "S"), set()
        for move in moves:
            seen.add((row, column))
            row, column = row + _MOVES[move][0], column + _MOVES[move][1]
            if (row, column) in seen or not _is_free(self.grid, row, column):
                return False
        least = len(_shortest_way(self.grid) or "") if self.shortest else len(moves)
        return self.grid[row][column] == "G" and len(moves) == least


def _find(grid: tuple[str, ...], mark: str) -> Cell:
    return next((r, row.index(mark)) for r, row in enumerate(grid) if mark in row)


def _is_free(grid: tuple[str, ...], row: int, column: int) -> bool:
    return 0 <= row < len(grid) and 0 <= column < len(grid[0]) and grid[row][column] != "#"


def _shortest_way(grid: tuple[str, ...]) -> str | None:
    """The moves of a shortest way from S to G; None where there is none."""
    start = _find(grid, "S")
    ways, waiting = {start: ""}, deque([start])
    while waiting:
        row, column = waiting.popleft()
        if grid[row][column] == "G":
            return ways[row, column].upper()
        for move, (down, right) in _MOVES.items():
            cell = (row + down, column + right)
            if cell not in ways and _is_free(grid, *cell):
                ways[cell] = ways[row, column] + move
                waiting.append(cell)
    return None


def _with_ends(rng: random.Random, cells: list[list[str]], *, least: int) -> list[str]:
    """The rows with S and G at random odd cells, at least so many moves apart."""
    odd = [(r, c) for r in range(1, len(cells), 2) for c in range(1, len(cells), 2)]
    while True:
        start, goal = rng.sample(odd, 2)
        marked = {start: "S", goal: "G"}
        rows = ["".join(marked.get((r, c), mark) for c, mark in enumerate(row)) for r, row in enumerate(cells)]
        if len(_shortest_way(tuple(rows)) or "") >= least:
            return rows


def _carved(rng: random.Random, *, size: int, loops: int) -> list[list[str]]:
    """Walls with passages between the odd cells: a tree by random depth-first search, and some walls opened."""
    cells = [["#"] * size for _ in range(size)]
    cells[1][1] = "."
    path = [(1, 1)]
    while path:
        row, column = path[-1]
        ways = [(i, j) for i, j in _MOVES.values() if 0 < row + 2 * i < size and 0 < column + 2 * j < size]
        fresh = [(i, j) for i, j in ways if cells[row + 2 * i][column + 2 * j] == "#"]
        if not fresh:
            path.pop()
            continue
        i, j = rng.choice(fresh)
        cells[row + i][column + j] = cells[row + 2 * i][column + 2 * j] = "."
        path.append((row + 2 * i, column + 2 * j))
    walls = [(r, c) for r in range(1, size - 1) for c in range(1, size - 1) if (r + c) % 2 and cells[r][c] == "#"]
    for row, column in rng.sample(walls, min(loops, len(walls))):
        cells[row][column] = "."
    return cells
