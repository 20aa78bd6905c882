"""Logic puzzles by a plan: a YAML file that names the kinds, and of each its levels and how many."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmrl.data.make_tasks.folder import Found
from mmrl.data.make_tasks.puzzle import Making, Puzzle, Source, TaskOptions, UnusableError
from mmrl.data.puzzles import KINDS, LEVELS, make_puzzle
from mmrl.errors import ConfigError, did_you_mean


def planned(file: Path, options: TaskOptions) -> Found:
    """A source for each puzzle of a plan: `sudoku: {levels: [1, 2], count: 100}`, 100 of each level.

    `levels` is 1 to 5 where it is missing. ConfigError, naming the file, for anything else.
    """
    plan = _plan(file)
    sources = []
    for kind, wanted in plan.items():
        levels, count = _wanted(kind, wanted, file)
        sources += [
            Source(f"{kind}-{level}-{number:06d}", file, sample=(kind, level))
            for level in levels
            for number in range(count)
        ]
    return sources, []


def _plan(file: Path) -> Mapping[str, Any]:
    import yaml

    if not file.is_file():
        raise ConfigError(
            f"{file} is no file; name a YAML file with lines like `sudoku: {{levels: [1, 2], count: 100}}`"
        )
    try:
        plan = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is no YAML: {error}") from error
    if not isinstance(plan, dict) or not plan:
        raise ConfigError(f"{file} must map kinds of puzzle to their levels and count; kinds are {', '.join(KINDS)}")
    return plan


def _wanted(kind: Any, wanted: Any, file: Path) -> tuple[Sequence[int], int]:
    if kind not in KINDS:
        hint = did_you_mean(str(kind), KINDS)
        raise ConfigError(f"{file}: there is no puzzle {kind!r}, but {', '.join(KINDS)}{hint}")
    given = wanted if isinstance(wanted, dict) else {}
    levels, count = given.get("levels", list(LEVELS)), given.get("count")
    good_levels = isinstance(levels, list) and levels and all(type(n) is int and n in LEVELS for n in levels)
    if not good_levels or not (type(count) is int and count >= 1) or not given.keys() <= {"levels", "count"}:
        raise ConfigError(f"{file}: {kind} needs `levels`, a list of 1 to 5, and `count`, from 1 on; not {wanted!r}")
    return sorted(set(levels)), count


class LogicPuzzles:
    """A puzzle for each source and version; one that was made before is made anew, a few times."""

    def __init__(self) -> None:
        self._made: set[str] = set()

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        kind, level = source.sample
        for _ in range(20):
            made = make_puzzle(kind, seed=int(making.rng.integers(2**31)), level=level)
            if made.question not in self._made:
                break
        else:
            raise UnusableError(f"20 puzzles in a row were made before: level {level} of {kind} has too few")
        self._made.add(made.question)
        columns = {"puzzle": kind, "puzzle_spec": json.dumps(made.spec), "level": level, "source": source.name}
        yield Puzzle(made.question, made.solution, columns=columns)
