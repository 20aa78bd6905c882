"""Which media a configuration names: each once, by path and budget; the sample that names it is read when needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mmrl.config.schema import DataSection, DatasetSection, RunConfig
from mmrl.data.budgets_of import resolve_budget
from mmrl.data.opening import OpenJob
from mmrl.data.readers import SampleSet, read_datasets
from mmrl.data.sample import MediaKind, MediaRef, Sample
from mmrl.data.skipped import SkippedLog
from mmrl.data.vision import VisionGeometry


@dataclass(frozen=True, slots=True)
class Medium:
    """Where a medium is named first. The sample is read when it is needed: rows may hold pixels."""

    samples: SampleSet
    section: DatasetSection
    row: int
    number: int
    kind: MediaKind

    @property
    def sample(self) -> Sample:
        return self.samples[self.row]

    def job(self, config: RunConfig, geometry: VisionGeometry) -> OpenJob:
        sample = self.sample
        ref = sample.media[self.number]
        return OpenJob(ref, resolve_budget(config, self.section, sample, ref), geometry)


def data_sections(config: RunConfig) -> list[DataSection]:
    """The run's data and those that stages bring themselves."""
    return [config.data, *(stage.data for stage in config.stages if stage.data is not None)]


def distinct_media(
    config: RunConfig, data: DataSection, *, skipped: SkippedLog, sample_id: str | None = None
) -> list[Medium]:
    """Each (file, part of it, kind, budget) once, in the order of the rows; of one sample only, if its id is given.

    Bytes and pixels in rows and clips of frame files are told apart later, when they are hashed.
    """
    return [medium for medium, _ in named_media(config, data, skipped=skipped, sample_id=sample_id)]


def named_media(
    config: RunConfig, data: DataSection, *, skipped: SkippedLog, sample_id: str | None = None
) -> Iterator[tuple[Medium, MediaRef]]:
    """The same one by one, each with what its row says of it, which is not to be kept: it may hold pixels."""
    seen: set[tuple] = set()
    for section, samples, row in _rows(data, skipped):
        sample = samples[row]
        if sample_id not in (None, sample.sample_id):
            continue
        for number, ref in enumerate(sample.media):
            budget = resolve_budget(config, section, sample, ref)
            name = (ref.source, ref.kind, budget, ref.start_s, ref.end_s) if ref.has_name else None
            if name is None or name not in seen:
                seen.update([] if name is None else [name])
                yield Medium(samples, section, row, number, ref.kind), ref


def _rows(data: DataSection, skipped: SkippedLog) -> Iterator[tuple[DatasetSection, SampleSet, int]]:
    for sections in (data.train, data.val):
        sets = read_datasets(sections, data=data, relative_to=Path.cwd(), skipped=skipped)
        for section, samples in zip(sections, sets, strict=True):
            for row in range(len(samples)):
                yield section, samples, row
