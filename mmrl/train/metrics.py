"""Metrics of a run: metrics.jsonl always, TensorBoard when asked, seconds per named part of a step.

Keys are paths: `reward/quadrant`, `val/mean`, `loss/policy`. Everything under `perf/` depends on the machine; all
other numbers are the same whenever the same run is repeated on one machine.
"""

from __future__ import annotations

import json
import math
import resource
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mmrl.train import distributed


class Stopwatch:
    """Seconds spent in named parts, summed until read."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[part] += time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """The seconds per part since the last call."""
        taken, self._seconds = dict(self._seconds), defaultdict(float)
        return taken


class JsonLines:
    """An append-only JSONL file that can be cut back to a checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def write(self, row: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def cut(self, size: int) -> None:
        """Drop what was written after the file had `size` bytes."""
        with self.path.open("r+b") as file:
            file.truncate(size)


class MetricsLog:
    """Writes one row per step to metrics.jsonl and, when asked, to TensorBoard.

    next_step: of a run that continues; TensorBoard then drops what an earlier process wrote from that step on.
    """

    def __init__(self, folder: Path, *, tensorboard: bool, next_step: int | None = None) -> None:
        self.lines = JsonLines(folder / "metrics.jsonl")
        self._board = _open_board(folder / "tensorboard", next_step=next_step) if tensorboard else None

    def write(self, step: int, stage: str, values: Mapping[str, float]) -> None:
        self.lines.write({"step": step, "stage": stage, **values})
        if self._board is not None:
            for key, value in values.items():
                self._board.add_scalar(key, value, step)

    def flush(self) -> None:
        """TensorBoard keeps rows in memory for minutes; put them into its file."""
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def means_over_ranks(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Mean of each key's values over all ranks; NaN (unscored) values are left out, keys without values too.

    >>> means_over_ranks({"reward": [1.0, 0.0, float("nan")], "none": []})
    {'reward': 0.5}
    """
    gathered = distributed.gather_objects({key: list(numbers) for key, numbers in values.items()})
    means = {}
    for key in dict.fromkeys(key for part in gathered for key in part):
        numbers = [value for part in gathered for value in part.get(key, ()) if not math.isnan(value)]
        if numbers:
            means[key] = math.fsum(numbers) / len(numbers)
    return means


def peak_memory_gib() -> dict[str, float]:
    """Highest memory use of this process so far, in GiB: host, and GPU where there is one."""
    peaks = {"perf/peak_host_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}
    if torch.cuda.is_available():
        peaks["perf/peak_gpu_gib"] = torch.cuda.max_memory_allocated() / 2**30
    return peaks


def _open_board(folder: Path, *, next_step: int | None) -> Any:
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), purge_step=next_step)
