"""What a person sees of a run: a progress bar with ETA and reward, validation lines, the closing table.

Without a terminal (a log file, CI) the bar becomes a plain line after the first step and the last one of a stage, and
between them after each step that ends 10 seconds or more after the line before.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from mmrl.training.closing import percent

SECONDS_BETWEEN_LINES = 10.0


class TrainConsole:
    """Progress of all stages. `enabled=False` (not the main rank, or log.console off) prints nothing."""

    def __init__(self, *, enabled: bool) -> None:
        self.console = Console(quiet=not enabled, highlight=False, soft_wrap=True)
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = None
        self._events_shown: set[str] = set()
        self._stage, self._first, self._total, self._started, self._last_line = "", 0, 0, 0.0, float("-inf")
        self._unsaid: str | None = None

    def start_stage(self, name: str, *, done: int, total: int) -> None:
        self._bar.start()
        self._task = self._bar.add_task(name, total=total, completed=done, status="")
        self._stage, self._first, self._total = name, done, total
        self._started, self._last_line = time.monotonic(), float("-inf")

    def end_stage(self) -> None:
        """Also of a stage that ends early, whose last step is said now."""
        self._say_step()
        if self._task is not None:
            self._bar.stop_task(self._task)
        self._bar.stop()

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        status = status_line(metrics)
        if self.console.is_terminal and self._task is not None:
            self._bar.update(self._task, completed=done, status=status)
            return
        now = time.monotonic()
        course = time_line(now - self._started, done=done - self._first, left=self._total - done)
        self._unsaid = "  ".join(part for part in (f"{self._stage} {done}/{self._total}", status, course) if part)
        if now - self._last_line >= SECONDS_BETWEEN_LINES or done == self._total:
            self._say_step()

    def _say_step(self) -> None:
        if self._unsaid is not None:
            self.print(self._unsaid)
            self._unsaid, self._last_line = None, time.monotonic()

    def print(self, *parts: object) -> None:
        self.console.print(*parts)

    def opening(self, changes: Sequence[str], notes: Sequence[str], hooks: Sequence[str]) -> None:
        """List configuration keys that differ from those the run was started with, what is odd in it, and the hooks of
        a reinforcement-learning step with what fills them.
        """
        if hooks:
            self.print(f"hooks of a step: {'; '.join(hooks)}")
        for change in changes:
            self.print(f"changed since this run was started: {change}")
        for note in notes:
            self.print(f"note: {note}")

    def reward_events(self, messages: Mapping[str, str]) -> None:
        """Say once for each kind that a reward could not score a completion; the metrics count them."""
        for event in sorted(messages.keys() - self._events_shown):
            self._events_shown.add(event)
            self.print(f"warning: {messages[event]} (from now on counted in reward/event/{event})")

    def validation(self, step: int, metrics: Mapping[str, float], generations: Sequence[Mapping]) -> None:
        tasks = ", ".join(f"{k.removeprefix('val/task/')} {v:.3f}" for k, v in metrics.items() if "val/task/" in k)
        unscored = metrics.get("val/unscored", 0.0)
        left_out = f"; {percent(unscored)} of the completions got no score" if unscored else ""
        self.print(f"held-out score at step {step}: {metrics.get('val/mean', float('nan')):.3f}  ({tasks}){left_out}")
        if generations:
            self.print(generation_table(generations))

    def evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Scores of benchmarks in per cent, and how many of their questions failed or have no score."""
        names = [key.removesuffix("/score") for key in metrics if key.endswith("/score")]
        self.print(f"benchmarks at step {step}: {', '.join(_score_of(name, metrics) for name in names)}")


def _score_of(name: str, metrics: Mapping[str, float]) -> str:
    counts = {count: metrics[f"{name}/{count}"] for count in ("failed", "unscored")}
    out = ", ".join(f"{number:.0f} {count}" for count, number in counts.items() if number)
    noted = f" ({out} of {metrics[f'{name}/n']:.0f})" if out else ""
    return f"{name.removeprefix('eval/')} {100 * metrics[f'{name}/score']:.1f}{noted}"


def time_line(elapsed_s: float, *, done: int, left: int) -> str:
    """How long a stage has taken for its `done` steps, and about how long the steps that are left will take.

    >>> time_line(3.2, done=1, left=4), time_line(16.0, done=5, left=0)
    ('elapsed 3 s, left about 13 s', 'elapsed 16 s')
    """
    estimate = f", left about {duration(elapsed_s / done * left)}" if left else ""
    return f"elapsed {duration(elapsed_s)}{estimate}"


def duration(seconds: float) -> str:
    """
    >>> duration(299.6), duration(300), duration(7200), duration(51000)
    ('300 s', '5 min', '2 h 00 min', '14 h 10 min')
    """
    minutes = round(seconds / 60)
    if seconds < 300:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def status_line(metrics: Mapping[str, float]) -> str:
    """The numbers worth watching, short."""
    shown = {
        "reward": "reward/mean",
        "shaped": "reward_shaped/mean",
        "loss": "loss/total",
        "s/step": "perf/seconds_step",
    }
    return "  ".join(f"{label} {metrics[key]:.3f}" for label, key in shown.items() if key in metrics)


def generation_table(rows: Sequence[Mapping]) -> Table:
    """Completions beside their answers."""
    table = Table(title="held-out completions", title_justify="left", show_edge=False)
    for column in ("task", "sample", "completion", "answer", "reward"):
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = (row["task"], row["sample_id"], row["completion"], row["answer"], f"{row['reward']:.2f}")
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table


def score_table(validations: Sequence[tuple[str, Mapping[str, float]]]) -> Table:
    """Held-out score per task (rows) at each validation shown (columns), and the change the last one brought."""
    table = Table(title="held-out score (task rewards only)", title_justify="left", show_edge=False)
    table.add_column("task")
    for label, _ in validations:
        table.add_column(label, justify="right")
    table.add_column("last change", justify="right")
    keys = [k for k in validations[-1][1] if k.startswith("val/task/")] + ["val/mean"]
    for key in keys:
        values = [metrics.get(key, float("nan")) for _, metrics in validations]
        change = f"{values[-1] - values[-2]:+.3f}" if len(values) > 1 else ""
        table.add_row(key.removeprefix("val/").removeprefix("task/"), *(f"{v:.3f}" for v in values), change)
    return table
