"""The log of rows that were left out: every one with its reason, and a stop when they become too many."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from mmrl.data.sample import Sample
from mmrl.errors import TooManySkippedError

SkipKind = Literal["bad_row", "bad_media", "late_media", "too_long"]
OF_MEDIA: tuple[SkipKind, ...] = ("bad_media", "late_media")


@dataclass(frozen=True, slots=True)
class Skipped:
    """One row left out.

    where: `file:line (id=...)`. sample_id: None where the row did not even yield an id. path: a medium's file that is
    not there.
    """

    dataset: str
    sample_id: str | None
    where: str
    kind: SkipKind
    reason: str
    path: str | None = None

    @classmethod
    def of(cls, sample: Sample, *, kind: SkipKind, reason: str) -> Skipped:
        return cls(sample.dataset, sample.sample_id, sample.where, kind, reason)


class SkippedLog:
    """Skipped rows of a run, in memory and as one JSON object a line in `path` (None: in memory only).

    A row counts once, however often it is met again: in a later epoch, by another stage, after a resume (the file is
    read back). `check` compares the skipped rows of each dataset with the rows that were read from it.

    >>> log = SkippedLog(None, max_fraction=0.1)
    >>> log.rows_read("dogs", 100)
    >>> log.skip(Skipped("dogs", "7", "dogs.jsonl:7 (id=7)", "bad_media", "dog7.jpg: cut short"))
    >>> log.check()  # 1 of 100: passes
    """

    def __init__(self, path: Path | None, *, max_fraction: float) -> None:
        self.path, self.max_fraction = path, max_fraction
        self._rows: dict[tuple[str, str], Skipped] = {}
        self._total: dict[str, int] = {}
        if path is not None:
            path.touch()
            self._read_back(path)

    @property
    def rows(self) -> tuple[Skipped, ...]:
        return tuple(self._rows.values())

    @property
    def size(self) -> int:
        """Bytes of the file; what a checkpoint notes for `cut`."""
        return self.path.stat().st_size if self.path is not None else 0

    def rows_read(self, dataset: str, count: int) -> None:
        """Say how many rows a dataset has, good and bad. Said again (another stage), the larger number holds."""
        self._total[dataset] = max(count, self._total.get(dataset, 0))

    def total(self, dataset: str) -> int:
        """Rows read from a dataset, good and bad; 0 for an unknown one."""
        return self._total.get(dataset, 0)

    def skip(self, row: Skipped) -> None:
        key = (row.dataset, row.where)
        if key in self._rows:
            return
        self._rows[key] = row
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")

    def add(self, other: SkippedLog) -> None:
        """Take over what another log holds: its skipped rows and the totals of its datasets."""
        for dataset, total in other._total.items():
            self.rows_read(dataset, total)
        for row in other.rows:
            self.skip(row)

    def check(self) -> None:
        """TooManySkippedError when a dataset lost more than `max_fraction` of its rows."""
        counts = Counter(row.dataset for row in self._rows.values())
        for dataset, total in self._total.items():
            if counts[dataset] > self.max_fraction * total:
                raise TooManySkippedError(self._complaint(dataset, total))

    def cut(self, size: int) -> None:
        """Forget what was written after the file had `size` bytes."""
        if self.path is None:
            return
        with self.path.open("r+b") as file:
            file.truncate(size)
        self._rows.clear()
        self._read_back(self.path)

    def _read_back(self, path: Path) -> None:
        for line in path.read_text(encoding="utf-8").split("\n"):
            # A line cut by a kill is not JSON; its row is met and written again.
            if line.endswith("}"):
                row = Skipped(**json.loads(line))
                self._rows[row.dataset, row.where] = row

    def _complaint(self, dataset: str, total: int) -> str:
        rows = [row for row in self._rows.values() if row.dataset == dataset]
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(row.kind for row in rows).most_common())
        listed = f"; {self.path} lists them" if self.path is not None else ""
        return (
            f"dataset {dataset!r}: {len(rows)} of {total} rows skipped ({kinds}), more than "
            f"data.max_skipped_fraction={self.max_fraction:g}{listed}. First: {rows[0].where}: {rows[0].reason}"
        )
