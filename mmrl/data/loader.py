"""The training loader: seeded, shuffled, resumable, mixing datasets. Its whole state is a few counts.

Order is a pure function of (seed, stage, epoch, number of rows): a row's place in an epoch is the rank of a 64-bit
hash of its number, so every machine and every version of every library draws the same order, and resuming needs no
random state.

Mixtures (D datasets):
    concat    each row of each dataset once an epoch, all shuffled together
    weights   each sample comes from a dataset drawn with probability weight / sum of weights
    shares    each sample comes from the dataset that is furthest behind its share, so that every batch holds exactly
              batch size x share samples of it wherever that is a whole number, and never drifts from it otherwise
In all three a dataset (for concat: the union) is gone through completely before it is shuffled anew; batches go on
over the end of an epoch, so no row is dropped and a batch may be larger than the data.

A plug-in with the hook `draw` chooses the rows in place of all this (`draw_by`); it may ask for the order above.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from mmrl.config.schema import DataSection
from mmrl.data.pool import Pool
from mmrl.data.readers import SampleSet, read_datasets
from mmrl.data.sample import Sample
from mmrl.data.skipped import SkippedLog
from mmrl.errors import CheckpointError, DataError, PluginError

Draw = Callable[[Pool, int, random.Random], Sequence[int]]


def build_loader(
    data: DataSection,
    *,
    seed: int,
    stage: str = "",
    tasks: Collection[str] = (),
    relative_to: Path,
    skipped: SkippedLog,
) -> Loader:
    """The loader over `data.train`, all rows read and checked; `tasks` keeps only rows of these tasks.

    Stages of different names draw different orders. DataError for a task that no row has.
    """
    sets = read_datasets(data.train, data=data, relative_to=relative_to, skipped=skipped)
    return loader_over(sets, data, seed=seed, stage=stage, tasks=tasks)


def loader_over(
    sets: Sequence[SampleSet], data: DataSection, *, seed: int, stage: str = "", tasks: Collection[str] = ()
) -> Loader:
    """The same over the datasets of `data.train` that were read already."""
    known = SampleSet.concat(sets).task_counts()
    absent = sorted(set(tasks) - set(known))
    if absent or not known:
        raise DataError(
            f"no training row of the task {', '.join(absent) or 'list'}; tasks: {', '.join(known) or 'none'}"
        )
    sets = [part.of_tasks(tasks) for part in sets]
    weights = [section.weight for section in data.train]
    return Loader(sets, weights=weights, mixture=data.mixture, shuffle=data.shuffle, seed=f"{seed}/{stage}")


class Loader:
    """Endless batches from several datasets.

    >>> loader.next(3)  # doctest: +SKIP
    [Sample(...), Sample(...), Sample(...)]
    """

    def __init__(
        self, sets: Sequence[SampleSet], *, weights: Sequence[float], mixture: str, shuffle: bool, seed: str
    ) -> None:
        """`seed` is any string: equal strings give equal orders."""
        kept = [(part, weight) for part, weight in zip(sets, weights, strict=True) if len(part)]
        if mixture == "concat":
            kept = [(SampleSet.concat([part for part, _ in kept]), 1.0)]
        self._sets = [part for part, _ in kept]
        self._shares = np.array([weight for _, weight in kept]) / sum(weight for _, weight in kept)
        self._mixture, self._shuffle, self._seed = mixture, shuffle, seed
        self._taken = [0] * len(kept)
        self._orders: dict[int, tuple[int, np.ndarray]] = {}
        self._starts = [0, *accumulate(len(part) for part in self._sets)]
        self._pool = Pool(SampleSet.concat(self._sets), lambda count: [self._next_row() for _ in range(count)])
        self._draw_rows: Draw | None = None
        self._drawn = 0  # rows that the hook chose

    def draw_by(self, draw: Draw) -> None:
        """Let a hook choose the rows from now on: (pool, count, chance) -> `count` row numbers."""
        self._draw_rows = draw

    def at(self, progress: float) -> None:
        """Say which share of the stage's steps is done, for the hook."""
        self._pool.progress = progress

    def __len__(self) -> int:
        """Rows of all datasets: the samples of one epoch of `concat`."""
        return sum(len(part) for part in self._sets)

    @property
    def epoch(self) -> float:
        """Passes over the data so far: samples handed out / rows."""
        return (self._drawn if self._draw_rows else sum(self._taken)) / len(self)

    def next(self, n: int) -> list[Sample]:
        """The next n samples. Raises what reading a row raises (a file that changed underneath)."""
        return self._pool.read(self._pool.own_order(n) if self._draw_rows is None else self._chosen(n, self._draw_rows))

    def peek(self, n: int) -> list[Sample]:
        """The n samples that come next, which stay to be drawn; none where a hook draws them, as it sees fit then."""
        if self._draw_rows is not None:
            return []
        taken = list(self._taken)
        try:
            return self._pool.read(self._pool.own_order(n))
        finally:
            self._taken = taken

    def state_dict(self) -> dict[str, Any]:
        """JSON-able: the seed, and samples taken and rows of each set (epoch = taken // rows)."""
        names = ["+".join(part.names) for part in self._sets]
        rows = [len(part) for part in self._sets]
        state = {"seed": self._seed, "sets": names, "rows": rows, "taken": list(self._taken)}
        return state if self._draw_rows is None else {**state, "drawn": self._drawn}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the samples that were taken. CheckpointError when the data are not those of the state."""
        mine = self.state_dict()
        changed = [f"{key} {state[key]} is now {mine[key]}" for key in ("sets", "rows") if state[key] != mine[key]]
        if changed:
            raise CheckpointError(
                f"the training data changed since the checkpoint ({'; '.join(changed)}), so the run cannot continue "
                "where it was; restore the data, or start a new run from the checkpoint's model"
            )
        self._seed, self._taken, self._drawn = state["seed"], list(state["taken"]), state.get("drawn", 0)
        self._orders.clear()

    def _chosen(self, count: int, draw: Draw) -> list[int]:
        """What a hook draws. PluginError for another number of rows, or for a row that is not there."""
        rows = [int(row) for row in draw(self._pool, count, random.Random(f"{self._seed}/draw/{self._drawn}"))]
        if len(rows) != count or not all(0 <= row < len(self) for row in rows):
            raise PluginError(
                f"the hook 'draw' was asked for {count} rows below {len(self)} and returned {rows!r:.200}"
            )
        self._drawn += count
        return rows

    def _next_row(self) -> int:
        number = self._choose()
        part, taken = self._sets[number], self._taken[number]
        self._taken[number] += 1
        epoch, position = divmod(taken, len(part))
        return self._starts[number] + int(self._order(number, epoch)[position])

    def _choose(self) -> int:
        """The set that the next sample comes from."""
        drawn = sum(self._taken)
        if self._mixture == "weights":
            [bits] = hash_numbers(f"{self._seed}/mixture", np.array([drawn]))
            chosen = np.searchsorted(np.cumsum(self._shares), float(bits) / 2.0**64, side="right")
            return min(int(chosen), len(self._sets) - 1)
        return int(np.argmax(self._shares * (drawn + 1) - self._taken))

    def _order(self, number: int, epoch: int) -> np.ndarray:
        """Row numbers of a set in the order of an epoch."""
        if self._orders.get(number, (-1,))[0] != epoch:
            names = "+".join(self._sets[number].names)
            self._orders[number] = (epoch, self._permutation(len(self._sets[number]), f"{names}/{epoch}"))
        return self._orders[number][1]

    def _permutation(self, rows: int, label: str) -> np.ndarray:
        numbers = np.arange(rows)
        if not self._shuffle:
            return numbers
        return np.argsort(hash_numbers(f"{self._seed}/{label}", numbers), kind="stable")


def hash_numbers(label: str, numbers: np.ndarray) -> np.ndarray:
    """64-bit hashes of integers under a label (uint64): splitmix64 started at a digest of the label.

    The mixing function is that of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
    """
    start = np.uint64(int.from_bytes(hashlib.blake2b(label.encode(), digest_size=8).digest(), "big"))
    with np.errstate(over="ignore"):
        z = start + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
