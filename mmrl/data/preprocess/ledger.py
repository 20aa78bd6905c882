"""What is written down while a run goes on: counts, failures.jsonl, the progress line."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import IO

from mmrl.data.preprocess.outcome import Failure, Outcome
from mmrl.data.preprocess.progress import ProgressLine


class Ledger:
    """One place where every medium of a run ends, once."""

    def __init__(self, outcome: Outcome, progress: ProgressLine, failures: IO[str]) -> None:
        self.outcome, self._progress, self._failures = outcome, progress, failures

    def built(self, size: int) -> None:
        self.outcome.built += 1
        self._progress.advance(size, self.outcome)

    def cached(self, size: int) -> None:
        self.outcome.cached += 1
        self._progress.advance(size, self.outcome)

    def repeated(self, size: int) -> None:
        self.outcome.repeated += 1
        self._progress.advance(size, self.outcome)

    def failed(self, failure: Failure, size: int) -> None:
        self.outcome.failures.append(failure)
        self._write(failure)
        self._progress.advance(size, self.outcome)

    def bad_rows(self, rows: list[Failure]) -> None:
        self.outcome.bad_rows += rows
        for row in rows:
            self._write(row)

    def _write(self, failure: Failure) -> None:
        self._failures.write(json.dumps(asdict(failure), ensure_ascii=False) + "\n")
        self._failures.flush()
