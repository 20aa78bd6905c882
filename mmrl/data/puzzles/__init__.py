"""Logic puzzles with checkers: made from a seed, solved by any correct solution.

>>> puzzle = read_puzzle("target", {"numbers": [4, 6, 1], "target": 24})
>>> puzzle.is_solved_by("4 * 6 * 1"), puzzle.is_solved_by("6 * 4 / 1 = 24"), puzzle.is_solved_by("4 * 6")
(True, True, False)
>>> made = make_puzzle("maze", seed=3, level=1)
>>> read_puzzle("maze", made.spec).is_solved_by(made.solution), make_puzzle("maze", seed=3, level=1) == made
(True, True)
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mmrl.data.puzzles.arithmetic import Calendar, Cryptarithm, NumberSequence, Target, WordSorting
from mmrl.data.puzzles.grids import Futoshiki, Maze, Minesweeper, Sudoku
from mmrl.data.puzzles.logic import Knights, Ordering, Satisfy, Zebra
from mmrl.data.puzzles.puzzle import LEVELS, LONGEST, LogicPuzzle, Made
from mmrl.errors import ConfigError, did_you_mean

__all__ = ["KINDS", "LEVELS", "LONGEST", "LogicPuzzle", "Made", "make_puzzle", "read_puzzle"]

_CLASSES: tuple[type[LogicPuzzle], ...] = (
    *(Target, NumberSequence, Cryptarithm, Calendar, WordSorting),
    *(Sudoku, Futoshiki, Minesweeper, Maze),
    *(Knights, Satisfy, Ordering, Zebra),
)
KINDS: dict[str, type[LogicPuzzle]] = {kind.KIND: kind for kind in _CLASSES}


def read_puzzle(kind: str, spec: Mapping[str, Any]) -> LogicPuzzle:
    """The puzzle of a row. ValueError, saying what is wrong, for an unknown kind or a spec of another form."""
    if kind not in KINDS:
        raise ValueError(f"there is no puzzle {kind!r}, but {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
    if not isinstance(spec, Mapping):
        raise ValueError(f"the spec is {spec!r}, not a mapping")
    return KINDS[kind].read(spec)


def make_puzzle(kind: str, *, seed: int, level: int) -> Made:
    """A puzzle of a kind and a level from 1 to 5; the same for the same arguments."""
    if kind not in KINDS or level not in LEVELS:
        raise ConfigError(
            f"there is no puzzle {kind!r} of level {level}; kinds are {', '.join(KINDS)}, levels 1 to 5"
            f"{did_you_mean(kind, KINDS)}"
        )
    return KINDS[kind].make(random.Random(f"{kind}/{level}/{seed}"), level=level)
