"""Which rows a stage trains on and is validated on: both read by the same code from the same kind of section."""

from __future__ import annotations

from pathlib import Path

from mmrl.config.schema import StageSection
from mmrl.data.loader import Loader, build_loader
from mmrl.data.readers import SampleSet, read_datasets
from mmrl.train.runtime import Runtime, stage_data


def train_loader(run: Runtime, section: StageSection) -> Loader:
    """The stage's shuffled, resumable loader over the training rows of its tasks."""
    data = stage_data(run.config, section)
    loader = build_loader(
        data,
        seed=run.config.seed,
        stage=section.name,
        tasks=section.tasks,
        relative_to=Path.cwd(),
        skipped=run.skipped,
    )
    run.skipped.check()
    return loader


def val_rows(run: Runtime, section: StageSection) -> SampleSet:
    """The stage's held-out rows, all of them, in file order."""
    data = stage_data(run.config, section)
    rows = SampleSet.concat(read_datasets(data.val, data=data, relative_to=Path.cwd(), skipped=run.skipped))
    run.skipped.check()
    return rows.of_tasks(section.tasks)
