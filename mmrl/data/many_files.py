"""Rows of several files in the order of their names, as one data file: `shards/val-*.parquet`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from mmrl.config.schema import RobotSection
from mmrl.data.rows import Rows, open_rows
from mmrl.errors import ConfigError


@dataclass(frozen=True, eq=False)
class ChainedRows:
    """Row numbers go on from file to file; places in messages are each file's own."""

    files: Sequence[Rows]

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self.files), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    def origin(self, number: int) -> str:
        rows, inside = self._place(number)
        return rows.origin(inside)

    def read(self, number: int) -> dict[str, Any]:
        rows, inside = self._place(number)
        return rows.read(inside)

    def _place(self, number: int) -> tuple[Rows, int]:
        file = bisect_right(self._starts, number) - 1
        return self.files[file], number - self._starts[file]


def is_pattern(path: Path) -> bool:
    """Whether a path names files by `*`, and no file has that very name."""
    return "*" in str(path) and not path.exists()


def files_of(path: Path) -> list[Path]:
    """The files or the folder that a path means; with `*` in it all files that fit. ConfigError where none does."""
    if not is_pattern(path):
        return [path]
    first = next(n for n, part in enumerate(path.parts) if "*" in part)
    folder = Path(*path.parts[:first])
    found = sorted(file for file in folder.glob("/".join(path.parts[first:])) if file.is_file())
    if not found:
        raise ConfigError(f"{path}: no file fits this pattern" + ("" if folder.is_dir() else f"; no folder {folder}"))
    return found


def open_files(path: Path, *, split: str | None = None, robot: RobotSection | None = None) -> Rows:
    """As `open_rows`; a path with `*` stands for all files that fit it. ConfigError where none does."""
    opened = [open_rows(file, split=split, robot=robot) for file in files_of(path)]
    return ChainedRows(opened) if is_pattern(path) else opened[0]
