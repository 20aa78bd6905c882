"""What a person sees while benchmarks run: a line for each, with what is done, what failed and how long it will take.

In a terminal the lines are redrawn. Elsewhere (a log file, CI) a benchmark has a plain line after its first question,
after its last one, and between them at most every 10 seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from mmrl.evaluate.runner import Job
from mmrl.training.console import SECONDS_BETWEEN_LINES, time_line


class EvaluationProgress:
    """A context manager; called with a job after each of its questions."""

    def __init__(self, console: Console, jobs: Sequence[Job]) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]}"),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {
            job.benchmark.name: self._bar.add_task(job.benchmark.name, total=len(job.todo), failed="") for job in jobs
        }
        self._started = time.monotonic()
        self._last_line: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, job: Job) -> None:
        name, total, now = job.benchmark.name, len(job.todo), time.monotonic()
        failed = f"{job.failed} failed" if job.failed else ""
        if self._console.is_terminal:
            self._bar.update(self._tasks[name], completed=job.done, failed=failed)
        elif job.done == total or now - self._last_line.get(name, float("-inf")) >= SECONDS_BETWEEN_LINES:
            self._last_line[name] = now
            course = time_line(now - self._started, done=job.done, left=total - job.done)
            self._console.print("  ".join(part for part in (f"{name} {job.done}/{total}", failed, course) if part))
