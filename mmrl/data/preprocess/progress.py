"""The progress line of `mmrl preprocess`: media, their rate, the bytes of sources read a second, and what is left."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from mmrl.data.preprocess.outcome import Outcome

WINDOW_S = 30.0
"""Rates are of the last so many seconds: media that are already there go by in no time."""

LOG_EVERY_S = 30.0
"""A line this often where nobody sees a progress bar, as in the log of a batch job."""


class Speed:
    """Rates of the last seconds, and the time that what is left will take, by bytes of sources.

    10 media of 100 MB in 5 s, 200 MB left: 2 media/s, 20 MB/s, 10 s left.
    """

    def __init__(self, *, media: int, size: int, now: float) -> None:
        self.media, self.size = media, size
        self.done = self.done_size = 0
        self._marks: deque[tuple[float, int, int]] = deque([(now, 0, 0)])

    def add(self, size: int, now: float) -> None:
        """A medium is done."""
        self.done += 1
        self.done_size += size
        if now - self._marks[-1][0] >= 0.25 or len(self._marks) == 1:
            self._marks.append((now, self.done, self.done_size))
        while len(self._marks) > 2 and now - self._marks[1][0] >= WINDOW_S:
            self._marks.popleft()

    def rates(self, now: float) -> tuple[float, float]:
        """(media a second, bytes a second)."""
        then, done, size = self._marks[0]
        seconds = max(now - then, 1e-9)
        return (self.done - done) / seconds, (self.done_size - size) / seconds

    def left_s(self, now: float) -> float | None:
        """Seconds until the end; None before anything is known of the speed."""
        per_s = self.rates(now)[1]
        return max(self.size - self.done_size, 0) / per_s if per_s > 0 else None

    def text(self, now: float) -> str:
        """`12.0 media/s, 34.5 MB/s, ETA 0:01:10`."""
        media, size = self.rates(now)
        left_s = self.left_s(now)
        left = "-:--:--" if left_s is None else _clock(left_s)
        return f"{media:.1f} media/s, {size / 1e6:.1f} MB/s, ETA {left}"


class ProgressLine:
    """A bar in a terminal, else a line now and then. A context manager."""

    def __init__(self, console: Console, *, media: int, size: int) -> None:
        self._console = console
        self._speed = Speed(media=media, size=size, now=time.monotonic())
        columns = ("{task.description}", "{task.fields[count]}", "{task.fields[speed]}", "{task.fields[failed]}")
        texts = [TextColumn(column, markup=False) for column in columns]
        self._bar = Progress(texts[0], BarColumn(), *texts[1:], TimeElapsedColumn(), console=console)
        fields: dict[str, Any] = {"count": f"0/{media}", "speed": "", "failed": ""}
        self._task = self._bar.add_task("media", total=max(size, 1), **fields)
        self._logged = time.monotonic()

    def __enter__(self) -> ProgressLine:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._bar.update(self._task, completed=max(self._speed.size, 1))
        self._bar.stop()

    def advance(self, size: int, outcome: Outcome) -> None:
        """A medium of this size is done."""
        now = time.monotonic()
        self._speed.add(size, now)
        count, speed = f"{self._speed.done}/{self._speed.media}", self._speed.text(now)
        failed = outcome.failed_counts if outcome.failures or outcome.bad_rows else ""
        self._bar.update(self._task, completed=self._speed.done_size, count=count, speed=speed, failed=failed)
        if not self._console.is_terminal and now - self._logged >= LOG_EVERY_S:
            self._logged = now
            self._console.print(f"media {count}, {speed}, {outcome.failed_counts}", highlight=False, markup=False)


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}"
