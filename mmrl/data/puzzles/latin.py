"""Filling grids in which no row, column or box repeats a number: all fillings, by search. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

Grid = tuple[tuple[int, ...], ...]
Cell = tuple[int, int]


def groups_of(size: int, *, box: int | None = None) -> tuple[tuple[Cell, ...], ...]:
    """The rows and columns of a grid and, with `box`, its boxes of box x box cells."""
    rows = [tuple((r, c) for c in range(size)) for r in range(size)]
    columns = [tuple((r, c) for r in range(size)) for c in range(size)]
    steps = range(0, size, box) if box else ()
    boxes = [tuple((r + i, c + j) for i in range(box) for j in range(box)) for r in steps for c in steps] if box else []
    return (*rows, *columns, *boxes)


def is_filled(grid: Grid, groups: Sequence[Sequence[Cell]], less: Sequence[tuple[Cell, Cell]] = ()) -> bool:
    """Whether every group has each number from 1 on once, and the first cell of every pair of `less` is below."""
    numbers = set(range(1, len(grid) + 1))
    if any({grid[r][c] for r, c in group} != numbers for group in groups):
        return False
    return all(grid[a][b] < grid[c][d] for (a, b), (c, d) in less)


def fillings(
    grid: Grid,
    groups: Sequence[Sequence[Cell]],
    less: Sequence[tuple[Cell, Cell]] = (),
    *,
    rng: random.Random | None = None,
) -> Iterator[Grid]:
    """All fillings of the cells that are 0, in random order with `rng`. Always the cell with fewest choices next."""
    size, cells = len(grid), [list(row) for row in grid]
    peers: dict[Cell, set[Cell]] = {(r, c): set() for r in range(size) for c in range(size)}
    for group in groups:
        for cell in group:
            peers[cell] |= set(group) - {cell}

    def choices(cell: Cell) -> list[int]:
        taken = {cells[r][c] for r, c in peers[cell]}
        low = max((cells[a[0]][a[1]] for a, b in less if b == cell), default=0)
        above = [cells[b[0]][b[1]] for a, b in less if a == cell and cells[b[0]][b[1]]]
        return [n for n in range(low + 1, min(above, default=size + 1)) if n not in taken]

    def search() -> Iterator[Grid]:
        empty = [cell for cell in peers if not cells[cell[0]][cell[1]]]
        if not empty:
            yield tuple(map(tuple, cells))
            return
        options, (row, column) = min(((choices(cell), cell) for cell in empty), key=lambda pair: len(pair[0]))
        for number in rng.sample(options, len(options)) if rng else options:
            cells[row][column] = number
            yield from search()
        cells[row][column] = 0

    yield from search()
