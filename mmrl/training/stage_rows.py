"""Which rows a stage trains on and is validated on: both read by the same code from the same kind of section.

All rows of all stages are read and checked before a model is loaded, so a bad row of the last stage stops a run at its
start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmrl.config.checks import SCORED_KINDS, Located
from mmrl.config.schema import RunConfig, StageSection
from mmrl.data.fit import Fit, processor_at
from mmrl.data.loader import Loader, loader_over
from mmrl.data.preference import pair_problem
from mmrl.data.readers import SampleSet, read_datasets
from mmrl.data.rollout_rows import read_made_rows
from mmrl.data.score_names import HeldOut, idle_tasks, score_problems
from mmrl.data.skipped import SkippedLog
from mmrl.data.templates import dataset_name
from mmrl.errors import ConfigError
from mmrl.scoring.router import Router
from mmrl.training import distributed
from mmrl.training.runtime import Runtime, stage_data
from mmrl.training.sample_stage import rows_path


@dataclass(frozen=True)
class StageRows:
    """The good rows of the datasets of a stage, one set for each dataset."""

    train: Sequence[SampleSet]
    val: Sequence[SampleSet]


def read_rows(config: RunConfig, *, log: Path | None) -> tuple[list[StageRows], SkippedLog]:
    """The rows of every stage and the list of those left out; a data section that stages share is read once.

    log: where the main process writes that list; None: it stays in memory. Raises what a bad row raises, and
    TooManySkippedError when more rows are left out than their section allows.
    """
    skipped = SkippedLog(log if distributed.is_main() else None, max_fraction=0.0)
    read: dict[int, StageRows] = {}
    for section in config.stages:
        data = stage_data(config, section)
        if id(data) not in read:
            skipped.max_fraction = data.max_skipped_fraction
            how = {"data": data, "relative_to": Path.cwd(), "skipped": skipped}
            read[id(data)] = StageRows(read_datasets(data.train, **how), read_datasets(data.val, **how))
            skipped.check()
    return [read[id(stage_data(config, section))] for section in config.stages], skipped


def check_rows(run: Located, rows: Sequence[StageRows], *, model_path: Path) -> list[str]:
    """Raise ConfigError, one line per contradiction, unless rows and configuration fit. Returns what is only odd.

    model_path: the model whose spaces count, that of the checkpoint where a run is continued.
    """
    model = run.config.model.model_copy(update={"path": str(model_path)})
    run = replace(run, config=run.config.model_copy(update={"model": model}))
    with Router(run.config.rewards) as router:
        fit = Fit(run, router, processor_at(run))
        datasets = {}
        problems: list[str] = []
        for index, section in enumerate(run.config.stages):
            for split, key, dataset, samples in _datasets(run, index, rows[index]):
                datasets[key] = dataset
                if split == "train" and section.rows_from is not None:
                    continue  # its own rows do not exist yet
                is_scored = split == "val" or section.kind in SCORED_KINDS
                tasks = samples.of_tasks(section.tasks).task_counts() if is_scored else ()
                problems += fit.problems(key, dataset, samples, scored=set(tasks))
                if split == "train" and section.kind == "dpo":
                    problem = pair_problem(samples.of_tasks(section.tasks))
                    problems += [run.at(f"{key}.card", problem)] if problem else []
        misspelt, idle = fit.unused(datasets=list(datasets.items()))
    held_out = [_held_out(run.config, *stage) for stage in zip(run.config.stages, rows, strict=True)]
    problems += [*misspelt, *score_problems(run, held_out)]
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))
    tasks = {task for stage in rows for samples in (*stage.train, *stage.val) for task in samples.task_counts()}
    return [*idle, *idle_tasks(run, tasks)]


def _held_out(config: RunConfig, section: StageSection, rows: StageRows) -> HeldOut:
    names = map(dataset_name, stage_data(config, section).val)
    return [(name, tuple(samples.task_counts())) for name, samples in zip(names, rows.val, strict=True)]


def _datasets(run: Located, index: int, rows: StageRows) -> Iterator[tuple]:
    """Split, key, section and rows of each dataset of a stage."""
    section = run.config.stages[index]
    data = stage_data(run.config, section)
    owners = [i for i, other in enumerate(run.config.stages) if other.data is data]
    prefix = f"stages.{owners[0]}.data" if owners else "data"
    for split in ("train", "val"):
        for number, (dataset, samples) in enumerate(zip(getattr(data, split), getattr(rows, split), strict=True)):
            yield split, f"{prefix}.{split}.{number}", dataset, samples


def train_loader(run: Runtime, index: int, rows: Sequence[StageRows]) -> Loader:
    """The shuffled, resumable loader of stage `index` over the training rows of its tasks.

    rows: of all stages. Raises what reading made rows raises.
    """
    section = run.config.stages[index]
    data = stage_data(run.config, section)
    if section.rows_from is not None:  # one set, which has no weight beside others
        data = data.model_copy(update={"mixture": "concat", "train": data.train[:1]})
    sets = distributed.together(lambda: _training_sets(run, index, rows))
    return loader_over(sets, data, seed=run.config.seed, stage=section.name, tasks=section.tasks)


def _training_sets(run: Runtime, index: int, rows: Sequence[StageRows]) -> Sequence[SampleSet]:
    """The training rows of stage `index`: those of its datasets, or those that an earlier stage made."""
    source = run.config.stages[index].rows_from
    if source is None:
        return rows[index].train
    number = next(n for n, section in enumerate(run.config.stages) if section.name == source)
    sets = _training_sets(run, number, rows)
    return [read_made_rows(rows_path(run.folder, source), sets, stage=source)]


def val_rows(section: StageSection, rows: StageRows) -> SampleSet:
    """The stage's held-out rows, all of them, in file order."""
    return SampleSet.concat(rows.val).of_tasks(section.tasks)
