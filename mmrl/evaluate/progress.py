"""What a person sees while benchmarks run: how far all and each of them are, what failed, how long it will take.

In a terminal each has a bar. Elsewhere (a log file, CI) there is a line after the first question, at most every 10
seconds, and after the last question of each benchmark. What was answered before counts as done, but not for the time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from mmrl.evaluate.runner import Job
from mmrl.training.console import SECONDS_BETWEEN_LINES, time_line

_ALL = "all"


def to_ask(jobs: Sequence[Job]) -> str:
    """How many questions there are, and how many of them an earlier call answered."""
    todo = sum(len(job.todo) for job in jobs)
    names = jobs[0].benchmark.name if len(jobs) == 1 else f"{len(jobs)} benchmarks"
    before = _total(jobs) - todo
    return f"{todo} questions of {names} to ask" + (f", {before} answered before" if before else "")


class EvaluationProgress:
    """A context manager; called with a job after each of its questions."""

    def __init__(self, console: Console, jobs: Sequence[Job]) -> None:
        self._console, self._jobs = console, jobs
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        # The line of all comes first: of more benchmarks than the terminal has lines the last ones are not shown.
        self._all = self._add(_ALL, jobs) if len(jobs) > 1 else None
        self._tasks = {job.benchmark.name: self._add(job.benchmark.name, [job]) for job in jobs}
        self._started, self._last_line = time.monotonic(), float("-inf")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, job: Job) -> None:
        if self._console.is_terminal:
            self._update(self._tasks[job.benchmark.name], [job])
            if self._all is not None:
                self._update(self._all, self._jobs)
            return
        now = time.monotonic()
        if job.done == len(job.todo):
            self._say(job.benchmark.name, [job], now)
        elif now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._say(job.benchmark.name if self._all is None else _ALL, self._jobs, now)

    def _add(self, name: str, jobs: Sequence[Job]) -> TaskID:
        return self._bar.add_task(name, total=_total(jobs), completed=_done(jobs), failed="")

    def _update(self, task: TaskID, jobs: Sequence[Job]) -> None:
        self._bar.update(task, completed=_done(jobs), failed=_failed(jobs))

    def _say(self, name: str, jobs: Sequence[Job], now: float) -> None:
        asked = sum(job.done for job in jobs)
        course = time_line(now - self._started, done=asked, left=sum(len(job.todo) for job in jobs) - asked)
        parts = (f"{name} {_done(jobs)}/{_total(jobs)}", _failed(jobs), course)
        self._console.print("  ".join(part for part in parts if part), markup=False)


def _total(jobs: Sequence[Job]) -> int:
    return sum(len(job.samples) for job in jobs)


def _done(jobs: Sequence[Job]) -> int:
    """With what an earlier call answered."""
    return sum(len(job.samples) - len(job.todo) + job.done for job in jobs)


def _failed(jobs: Sequence[Job]) -> str:
    failed = sum(job.failed for job in jobs)
    return f"{failed} failed" if failed else ""
