"""What a person sees of a run: a progress bar with ETA and reward, validation lines, the closing table.

Without a terminal (a log file, CI) the bar becomes one plain line every few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

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
        self._stage, self._total, self._started, self._last_line = "", 0, 0.0, 0.0

    def start_stage(self, name: str, *, done: int, total: int) -> None:
        self._bar.start()
        self._task = self._bar.add_task(name, total=total, completed=done, status="")
        self._stage, self._total, self._started, self._last_line = name, total, time.monotonic(), 0.0

    def end_stage(self) -> None:
        if self._task is not None:
            self._bar.stop_task(self._task)
        self._bar.stop()

    def step(self, done: int, metrics: Mapping[str, float]) -> None:
        status = status_line(metrics)
        if self.console.is_terminal and self._task is not None:
            self._bar.update(self._task, completed=done, status=status)
        elif time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES or done == self._total:
            self._last_line = time.monotonic()
            seconds = self._last_line - self._started
            self.print(f"{self._stage} {done}/{self._total}  {status}  {seconds:.0f} s")

    def print(self, *parts: object) -> None:
        self.console.print(*parts)

    def opening(self, changes: Sequence[str], notes: Sequence[str]) -> None:
        """List configuration keys that differ from those the run was started with, and what is odd in it."""
        for change in changes:
            self.print(f"changed since this run was started: {change}")
        for note in notes:
            self.print(f"note: {note}")

    def reward_events(self, messages: Mapping[str, str]) -> None:
        """Say once for each kind that a reward could not score a completion; the metrics count them."""
        for event in messages.keys() - self._events_shown:
            self._events_shown.add(event)
            self.print(f"warning: reward event {event}: {messages[event]}")

    def validation(self, step: int, metrics: Mapping[str, float], generations: Sequence[Mapping]) -> None:
        tasks = ", ".join(f"{k.removeprefix('val/task/')} {v:.3f}" for k, v in metrics.items() if "val/task/" in k)
        self.print(f"held-out score at step {step}: {metrics.get('val/mean', float('nan')):.3f}  ({tasks})")
        if generations:
            self.print(generation_table(generations))


def status_line(metrics: Mapping[str, float]) -> str:
    """The numbers worth watching, short."""
    shown = {"reward": "reward/mean", "loss": "loss/total", "s/step": "perf/seconds_step"}
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


def closing_lines(
    *, folder: Path, checkpoint: Path | None, cache: Mapping[str, float], seconds: Mapping[str, float]
) -> str:
    """Cache, time, where the model is and what to try next."""
    parts = sorted(((s, name) for name, s in seconds.items() if name != "step"), reverse=True)
    lines = [
        f"cache: {cache.get('hits', 0):.0f} hits, {cache.get('misses', 0):.0f} misses",
        f"seconds: {', '.join(f'{name} {s:.0f}' for s, name in parts)}",
        f"run folder: {folder}",
    ]
    if checkpoint is not None:
        lines.append(f"checkpoint: {checkpoint / 'model'} (loads with transformers' from_pretrained)")
    lines += [
        "try next:",
        f"  tensorboard --logdir {folder}",
        f"  mmrl score {folder / 'rollouts.jsonl'} --config {folder / 'resolved.yaml'}",
    ]
    return "\n".join(lines)
