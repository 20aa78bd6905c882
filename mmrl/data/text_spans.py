"""Rows of a text file as byte ranges: nothing else of the file stays in memory."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from mmrl.errors import DataError


@dataclass(frozen=True, eq=False)
class TextSpans:
    """Row n is bytes start_N[n] to end_N[n], on line line_N[n]."""

    path: Path
    start_N: np.ndarray
    end_N: np.ndarray
    line_N: np.ndarray
    size_and_mtime: tuple[int, int]

    @classmethod
    def of(cls, path: Path, spans: Iterable[tuple[int, int, int]]) -> Self:
        """spans: (start, end, line) of each row; 20 bytes of each stay."""
        stamp = _stamp(path.stat())
        starts, ends, lines = array("q"), array("q"), array("I")
        for start, end, line in spans:
            starts.append(start)
            ends.append(end)
            lines.append(line)
        start_N, end_N = (np.frombuffer(numbers, dtype=np.int64) for numbers in (starts, ends))
        return cls(path, start_N, end_N, np.frombuffer(lines, dtype=np.uint32), stamp)

    def __len__(self) -> int:
        return len(self.start_N)

    def origin(self, number: int) -> str:
        return f"{self.path.name}:{self.line_N[number]}"

    def raw(self, number: int) -> bytes:
        """The row's bytes. DataError when the file is not the one that was read first."""
        start, end = int(self.start_N[number]), int(self.end_N[number])
        # Opened anew each time (a descriptor cannot be shared with other processes), without Python's file layers.
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            if _stamp(os.fstat(descriptor)) != self.size_and_mtime:
                raise DataError(f"{self.path}: the file changed after it was read; start again")
            return os.pread(descriptor, end - start, start)
        finally:
            os.close(descriptor)


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
