"""`mmrl check`: would this configuration run? Every row is read, media are opened, prompts rendered and counted.

Nothing here estimates: rows are read by the readers of training, and lengths are those of prompts that the renderer
made, so a row that passes is a row that trains.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.measure import measure_renderables
from rich.progress import track
from rich.table import Table

from mmrl.config.checks import SCORED_KINDS, located
from mmrl.config.run_checks import check_run
from mmrl.config.schema import DataSection, DatasetSection, RunConfig, StageSection
from mmrl.data.cache import Opener, PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.fit import Fit, processor_at
from mmrl.data.preference import pair_problem
from mmrl.data.prepare import Prepared, Preparer
from mmrl.data.readers import SampleSet, read_dataset
from mmrl.data.sample import GeometryKind
from mmrl.data.score_names import HeldOut, idle_tasks, score_problems
from mmrl.data.skipped import OF_MEDIA, Skipped, SkippedLog
from mmrl.data.storage import Storage
from mmrl.data.templates import dataset_name
from mmrl.errors import ConfigError, MmrlError, PromptTooLongError
from mmrl.models.families import FamilyProcessor
from mmrl.scoring.router import Router

MediaChoice = Literal["all", "sample", "none"]

SAMPLE_ROWS = 64
"""Rows per dataset whose media `--media sample` opens, spread evenly over the file."""

_CHUNK = 32
_UNLIMITED = 10_000
_LISTED = 10


@dataclass(frozen=True, slots=True)
class RowCost:
    """What one prompt costs. frames: of each of its clips."""

    prompt_tokens: int
    vision_tokens: int
    frames: tuple[int, ...]

    @classmethod
    def of(cls, item: Prepared) -> RowCost:
        clips = [entry for entry in item.prompt.media if entry.kind == "video"]
        frames = tuple(len(entry.frames_F3HW) for entry in clips)
        return cls(len(item.prompt.prompt_ids_T), item.prompt.num_vision_tokens, frames)


@dataclass
class DatasetReport:
    """What was found in one dataset. problems: what would stop a run, one line each. contradictions: those of them
    that are the configuration's. key: where the dataset is written (`data.train.0`)."""

    key: str
    section: DatasetSection
    name: str
    split: str
    data: DataSection
    rows: int = 0
    tasks: dict[str, int] = field(default_factory=dict)
    costs: list[RowCost] = field(default_factory=list)
    bad: tuple[Skipped, ...] = ()
    problems: list[str] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)

    @property
    def too_long(self) -> int:
        """Prompts above `max_prompt_tokens`, of those rendered."""
        return sum(cost.prompt_tokens > self.data.max_prompt_tokens for cost in self.costs)


def check(config: RunConfig, *, media: MediaChoice = "sample") -> int:
    """Print what a run would read, per dataset. Returns 0, 1 when bad rows or media would stop the run, 2 when rows
    and configuration do not fit. Raises ConfigError for contradictions that show without the rows.

    media: open the media of `all` rows, of a `sample` of rows, or of `none` (then no prompt is counted). Opened media
    are stored in the run's cache.
    """
    console = Console(soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED  # a file or a pipe has no width: a row of the table is one line there
    place = located(config)
    check_run(place, training=True)
    processor = processor_at(place)
    with Router(config.rewards) as router:
        checker = Checker(config, processor, router, media, Fit(place, router, processor))
        reports = [report for key, data in place.data_sections() for report in checker.reports(key, data)]
    contradictions = [problem for r in reports for problem in r.contradictions] + _absent_tasks(config, reports)
    misspelt, idle = _unused_budgets(checker.fit, reports)
    if all(report.tasks and not report.bad for report in reports):  # else missing rows may be those that have a task
        contradictions += score_problems(place, [_held_out(config, stage, reports) for stage in config.stages])
        idle += idle_tasks(place, {task for report in reports for task in report.tasks})
    console.print(_table(reports, console), soft_wrap=False, crop=False)
    _print_bad_rows(console, reports)
    for note in idle:
        console.print(f"note: {escape(note)}")
    contradictions += misspelt
    problems = contradictions + [f"{r.split} {r.name}: {problem}" for r in reports for problem in r.problems]
    for problem in problems:
        console.print(f"[red]problem:[/red] {escape(problem)}")
    console.print("[red]this would not run[/red]" if problems else "[green]nothing would stop a run[/green]")
    return 2 if contradictions else 1 if problems else 0


@dataclass(frozen=True)
class Checker:
    """Checks datasets one after the other."""

    config: RunConfig
    processor: FamilyProcessor
    router: Router
    media: MediaChoice
    fit: Fit

    def reports(self, key: str, data: DataSection) -> Iterator[DatasetReport]:
        """key: where the data section is written (`data`, `stages.0.data`)."""
        with MediaOpener(data.video, workers=data.decode_workers) as opener:
            for split, sections in (("train", data.train), ("val", data.val)):
                for number, section in enumerate(sections):
                    named = f"{key}.{split}.{number}", section, dataset_name(section)
                    yield self._dataset(DatasetReport(*named, split, data), opener)

    def _dataset(self, report: DatasetReport, opener: Opener) -> DatasetReport:
        # Nothing stops the check at its first finding: bad rows are collected, lengths counted without a limit.
        lenient = report.data.model_copy(update={"bad_row": "skip", "bad_media": "skip", "max_prompt_tokens": 2**62})
        log = SkippedLog(None, max_fraction=1.0)
        try:
            samples = read_dataset(report.section, data=lenient, relative_to=Path.cwd(), skipped=log)
            report.tasks = dict(samples.task_counts())
            scored = self._scored(report)
            report.contradictions += self.fit.problems(report.key, report.section, samples, scored=scored)
            report.contradictions += self._pair_problems(report, samples)
            if not report.contradictions:  # else each sample would only repeat them
                self._cost(report, samples, self._preparer(lenient, log, opener))
        except ConfigError as error:
            report.contradictions.append(f"{report.split} {report.name}: {error}")
        except MmrlError as error:
            report.problems.append(str(error))
        report.rows, report.bad = log.total(report.name), log.rows
        report.problems += _policy_problems(report)
        return report

    def _pair_problems(self, report: DatasetReport, samples: SampleSet) -> Iterator[str]:
        """Rows of dpo stages are pairs of replies."""
        for stage in self.config.stages if report.split == "train" else ():
            is_its_data = stage.rows_from is None and (stage.data or self.config.data) is report.data
            if stage.kind == "dpo" and is_its_data and (problem := pair_problem(samples.of_tasks(stage.tasks))):
                yield self.fit.run.at(f"{report.key}.card", problem)

    def _preparer(self, data: DataSection, log: SkippedLog, opener: Opener) -> Preparer:
        return Preparer(
            cache=PixelCache(
                Path(self.config.cache.dir), verify=self.config.cache.verify, storage=Storage.of(self.config.cache)
            ),
            opener=opener,
            processor=self.processor,
            config=self.config,
            data=data,
            skipped=log,
            geometry_kind=self._geometry_kind,
        )

    def _geometry_kind(self, task: str) -> GeometryKind | None:
        return self.router.geometry_kind(task) if task in self.config.rewards.tasks else None

    def _cost(self, report: DatasetReport, samples: SampleSet, preparer: Preparer) -> None:
        """Count the prompts of the dataset, or of some of its rows."""
        if self.media == "none":
            return
        step = 1 if self.media == "all" else max(1, len(samples) // SAMPLE_ROWS)
        chosen = samples[::step]
        chunks = [chosen[start : start + _CHUNK] for start in range(0, len(chosen), _CHUNK)]
        console = Console(stderr=True)
        shown = track(chunks, description=report.name, console=console, transient=True, disable=not console.is_terminal)
        prepared = [item for chunk in shown for item in preparer.prepare(chunk)]
        report.costs = [RowCost.of(item) for item in prepared]
        if report.data.too_long == "shrink":
            report.problems += _unshrinkable(prepared, preparer, limit=report.data.max_prompt_tokens)

    def _scored(self, report: DatasetReport) -> set[str]:
        """The dataset's tasks that need a reward: of validation rows all, of training rows those of RL stages."""
        if report.split == "val":
            return set(report.tasks)
        stages = [s for s in self.config.stages if s.kind in SCORED_KINDS and s.rows_from is None]
        stages = [s for s in stages if (s.data or self.config.data) is report.data]
        return {task for stage in stages for task in report.tasks if not stage.tasks or task in stage.tasks}


def _unshrinkable(prepared: Sequence[Prepared], preparer: Preparer, *, limit: int) -> list[str]:
    """Prompts that stay above the limit however small their media become, counted, with the first one's message."""
    strict = replace(preparer, data=preparer.data.model_copy(update={"max_prompt_tokens": limit}))
    messages = []
    for item in prepared:
        if len(item.prompt.prompt_ids_T) > limit:
            try:
                strict.prepare([item.sample])
            except PromptTooLongError as error:
                messages.append(str(error))
    return [f"{len(messages)} prompts cannot be shrunk enough. First: {messages[0]}"] if messages else []


def _unused_budgets(fit: Fit, reports: Sequence[DatasetReport]) -> tuple[list[str], list[str]]:
    """See Fit.unused; nothing is said when rows are missing, which may be those that use a class."""
    if any(report.bad or not report.tasks for report in reports):
        return [], []
    return fit.unused(datasets=[(report.key, report.section) for report in reports])


def _policy_problems(report: DatasetReport) -> list[str]:
    """Bad and too long rows that the data section does not allow."""
    data, problems = report.data, []
    for key, kinds, policy in (("bad_row", ("bad_row",), data.bad_row), ("bad_media", OF_MEDIA, data.bad_media)):
        count = sum(row.kind in kinds for row in report.bad)
        if count and policy == "error":
            are = "row is" if count == 1 else "rows are"
            problems.append(f"{count} {are} bad and data.{key} is `error`; mend them, or set it to `skip`")
    if report.too_long and data.too_long == "error":
        limit = data.max_prompt_tokens
        problems.append(
            f"{report.too_long} of {len(report.costs)} prompts are longer than data.max_prompt_tokens={limit} and "
            "data.too_long is `error`; raise the limit, lower the budgets, or set it to `skip` or `shrink`"
        )
    skipped = len(report.bad) + (report.too_long if data.too_long == "skip" else 0)
    if skipped > data.max_skipped_fraction * report.rows and not problems:
        problems.append(
            f"{skipped} of {report.rows} rows would be skipped, "
            f"more than data.max_skipped_fraction={data.max_skipped_fraction:g}"
        )
    return problems


def _absent_tasks(config: RunConfig, reports: Sequence[DatasetReport]) -> list[str]:
    """Tasks that a stage asks for, but none of its training rows has."""
    problems = []
    for stage in config.stages:
        if stage.rows_from is not None:  # its rows do not exist yet
            continue
        data = stage.data or config.data
        known = {task for r in reports if r.data is data and r.split == "train" for task in r.tasks}
        absent = sorted(set(stage.tasks) - known)
        if absent:
            names = ", ".join(sorted(known)) or "none"
            problems.append(f"stage {stage.name!r}: no training row of the task {', '.join(absent)}; tasks: {names}")
    return problems


def _held_out(config: RunConfig, stage: StageSection, reports: Sequence[DatasetReport]) -> HeldOut:
    data = stage.data or config.data
    return [(report.name, tuple(report.tasks)) for report in reports if report.data is data and report.split == "val"]


def _table(reports: Sequence[DatasetReport], console: Console) -> Table:
    table = Table(title="datasets (min / median / p95 / max)", title_justify="left", show_edge=False)
    for column in ("dataset", "tasks"):
        table.add_column(column)
    for column in ("rows", "bad", "opened", "prompt tokens", "vision tokens", "frames", "too long"):
        table.add_column(column, justify="right")
    for report in reports:
        costs = report.costs
        table.add_row(
            f"{report.split} {escape(report.name)}",
            escape(", ".join(f"{task} {count}" for task, count in report.tasks.items())),
            str(report.rows),
            str(len(report.bad)),
            str(len(costs)),
            spread([cost.prompt_tokens for cost in costs]),
            spread([cost.vision_tokens for cost in costs]),
            spread([frames for cost in costs for frames in cost.frames]),
            f"{report.too_long} > {report.data.max_prompt_tokens}" if costs else "-",
        )
    for column in table.columns:  # no word is broken, even where that makes the table wider than the terminal
        cells = (column.header, *column.cells)
        column.min_width = measure_renderables(console, console.options, cells).minimum
    return table


def spread(values: Sequence[int]) -> str:
    """Min, median, 95th percentile and maximum; each is one of the values.

    >>> spread([1, 2, 3, 10])
    '1 / 2 / 10 / 10'
    """
    if not values:
        return "-"
    # `inverted_cdf` picks a value that occurs: the smallest one with at least that share of values at or below it.
    levels = np.quantile(np.array(values), (0, 0.5, 0.95, 1), method="inverted_cdf")
    return " / ".join(str(int(level)) for level in levels)


def _print_bad_rows(console: Console, reports: Sequence[DatasetReport]) -> None:
    """The bad rows of each dataset; those with the same cause in one line, with the first of them."""
    for report in reports:
        named = escape(f"{report.split} {report.name}")
        causes = _by_cause(report.bad)
        for rows in causes[:_LISTED]:
            count = f"{len(rows)} rows, the first: " if len(rows) > 1 else ""
            first = escape(f"{rows[0].where}: {rows[0].reason}")
            console.print(f"{named}: [yellow]{rows[0].kind}[/yellow] {count}{first}")
        if len(causes) > _LISTED:
            console.print(f"{named}: ... and {sum(map(len, causes[_LISTED:]))} more bad rows")


def _by_cause(rows: Sequence[Skipped]) -> list[list[Skipped]]:
    """Rows of the same kind and reason together, whatever the name of the file that each of them misses."""
    causes: dict[tuple[str, str], list[Skipped]] = defaultdict(list)
    for row in rows:
        reason = row.reason if row.path is None else row.reason.replace(Path(row.path).name, "")
        causes[row.kind, reason].append(row)
    return list(causes.values())
