"""Metrics of a run: metrics.jsonl always, trackers as asked, seconds per named part of a step.

Keys are paths: `reward/quadrant`, `val/mean`, `loss/policy`. Everything under `perf/` depends on the machine; all
other numbers are the same whenever the same run is repeated on one machine.
"""

from __future__ import annotations

import json
import math
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from mmrl.training import distributed
from mmrl.training.trackers import Generation, Tracker


class Stopwatch:
    """Seconds spent in named parts, summed until read. Parts may overlap and may be timed by several threads."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)
        self._lock = threading.Lock()

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[part] += time.perf_counter() - start

    def take(self) -> dict[str, float]:
        """The seconds per part since the last call."""
        with self._lock:
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
    """Writes one row per step to metrics.jsonl and to every tracker."""

    def __init__(self, folder: Path, trackers: Sequence[Tracker] = ()) -> None:
        self.lines = JsonLines(folder / "metrics.jsonl")
        self._trackers = trackers

    def write(self, step: int, stage: str, values: Mapping[str, float]) -> None:
        self.lines.write({"step": step, "stage": stage, **values})
        for tracker in self._trackers:
            tracker.scalars(step, values)

    def show(self, step: int, generations: Sequence[Generation]) -> None:
        """Held-out completions with their media, as a table of every tracker."""
        for tracker in self._trackers if generations else ():
            tracker.generations(step, generations)

    def flush(self) -> None:
        for tracker in self._trackers:
            tracker.flush()

    def close(self) -> None:
        for tracker in self._trackers:
            tracker.close()


def sums_over_ranks(values: Mapping[str, float]) -> dict[str, float]:
    """Sum of each key over all ranks; a rank may lack a key."""
    gathered = distributed.gather_objects(dict(values))
    keys = dict.fromkeys(key for part in gathered for key in part)
    return {key: math.fsum(part.get(key, 0.0) for part in gathered) for key in keys}


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
