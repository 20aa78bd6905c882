"""Rows of a run as numbers: what each prompt and each of its media costs. Counted by rendering, not estimated."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from mmrl.config.schema import DataSection, DatasetSection, RunConfig, VideoSection
from mmrl.data.decoder import MediaOpener
from mmrl.data.prepare import Prepared, Preparer
from mmrl.data.readers import SampleSet, read_dataset
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import GeometryKind, MediaRef, Sample
from mmrl.data.skipped import Skipped, SkippedLog
from mmrl.data.templates import dataset_name
from mmrl.errors import MmrlError, PromptTooLongError
from mmrl.models.families import FamilyProcessor
from mmrl.plan.headers import HeaderCache
from mmrl.scoring.router import Router

_CHUNK = 256
_NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class PlannedMedium:
    """One medium of a prompt.

    entry: name of its cache entry within the plan; equal names are one entry. budget: name of its class. frames,
    pixels: stored frames, and pixels of one of them; source_frames, source_pixels: the same at the source, of the part
    that is shown. patches: positions of the vision tower.
    """

    entry: str
    kind: str
    budget: str
    source_frames: int
    source_pixels: int
    frames: int
    pixels: int
    tokens: int
    grid_thw: tuple[int, int, int]

    @property
    def stored_bytes(self) -> int:
        """Three channels of one byte."""
        return self.frames * self.pixels * 3


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One prompt. number: its place among the dataset's good rows."""

    number: int
    task: str
    where: str
    prompt_tokens: int
    vision_tokens: int
    media: tuple[PlannedMedium, ...] = ()


@dataclass
class PlannedDataset:
    """The rows of one dataset. key: where it is written (`data.train.0`). total: its rows in the file, good and bad.
    sampled: only some of its rows were counted. problem: why none could be.
    """

    key: str
    split: str
    name: str
    data: DataSection
    section: DatasetSection
    rows: list[PlannedRow] = field(default_factory=list)
    bad: tuple[Skipped, ...] = ()
    total: int = 0
    sampled: bool = False
    problem: str | None = None
    unshrinkable: int = 0

    @property
    def limit(self) -> int:
        return self.data.max_prompt_tokens

    @property
    def too_long(self) -> list[PlannedRow]:
        """Rows above max_prompt_tokens, the longest first."""
        return sorted((r for r in self.rows if r.prompt_tokens > self.limit), key=lambda row: -row.prompt_tokens)

    @property
    def trained(self) -> list[PlannedRow]:
        """Rows as training sees them: those that are too long are left out; shrunk ones are as long as the limit."""
        kept = [row for row in self.rows if row.prompt_tokens <= self.limit]
        if self.data.too_long == "shrink":
            kept += [replace(r, prompt_tokens=self.limit) for r in self.rows if r.prompt_tokens > self.limit]
        return kept


@dataclass
class RowPlanner:
    """Counts the rows of a run, and counts some of them anew under other budgets.

    headers: by data section, so that each file's header is read once. rows_per_dataset: None: all.
    """

    config: RunConfig
    processor: FamilyProcessor
    router: Router
    rows_per_dataset: int | None = None
    seconds: float = 0.0
    counted: int = 0
    _headers: dict[VideoSection, HeaderCache] = field(default_factory=dict)
    _samples: dict[str, SampleSet] = field(default_factory=dict)

    def datasets(self, sections: Iterable[tuple[str, DataSection]]) -> list[PlannedDataset]:
        """All datasets of the run's data sections. A dataset that cannot be read is there with its problem."""
        found = []
        for key, data in sections:
            for split, parts in (("train", data.train), ("val", data.val)):
                for number, section in enumerate(parts):
                    place = f"{key}.{split}.{number}"
                    found.append(self._dataset(PlannedDataset(place, split, dataset_name(section), data, section)))
        return found

    def again(self, dataset: PlannedDataset, numbers: Iterable[int], config: RunConfig) -> list[PlannedRow]:
        """These rows of a dataset, counted under the budgets of another configuration."""
        samples = self._samples[dataset.key]
        data = data_section_at(config, dataset.key)
        preparer = self._preparer(config, data, SkippedLog(None, max_fraction=1.0))
        return list(self._rows(samples, list(numbers), preparer))

    @property
    def inexact(self) -> set[str]:
        """Media whose frames only decoding tells."""
        return set().union(*(cache.inexact for cache in self._headers.values()))

    def _dataset(self, dataset: PlannedDataset) -> PlannedDataset:
        began = time.perf_counter()
        lenient = dataset.data.model_copy(update={"bad_row": "skip", "bad_media": "skip"})
        log = SkippedLog(None, max_fraction=1.0)
        try:
            samples = read_dataset(dataset.section, data=lenient, relative_to=Path.cwd(), skipped=log)
            self._samples[dataset.key] = samples
            self._count(dataset, samples, self._preparer(self.config, dataset.data, log))
        except MmrlError as error:
            dataset.problem = str(error)
        dataset.total, dataset.bad = log.total(dataset.name), log.rows
        self.seconds += time.perf_counter() - began
        self.counted += len(dataset.rows)
        return dataset

    def _count(self, dataset: PlannedDataset, samples: SampleSet, preparer: Preparer) -> None:
        numbers = list(range(len(samples)))
        if self.rows_per_dataset is not None and self.rows_per_dataset < len(samples):
            count = self.rows_per_dataset
            numbers = [number * len(samples) // count for number in range(count)]
            dataset.sampled = True
        dataset.rows += self._rows(samples, numbers, preparer)
        if dataset.data.too_long == "shrink":
            long = [samples[row.number] for row in dataset.too_long]
            dataset.unshrinkable = sum(not _can_shrink(preparer, sample, dataset.limit) for sample in long)

    def _rows(self, samples: SampleSet, numbers: Sequence[int], preparer: Preparer) -> Iterator[PlannedRow]:
        headers: HeaderCache = cast(Any, preparer.cache)
        for start in range(0, len(numbers), _CHUNK):
            chunk = [(number, samples[number]) for number in numbers[start : start + _CHUNK]]
            jobs = [job for _, sample in chunk for job in preparer.jobs(sample)]
            found = dict(headers.get_many(jobs, preparer.opener))
            entries = iter(found[place] for place in range(len(jobs)))
            for number, sample in chunk:
                item = preparer.prepare_one(sample, [next(entries) for _ in sample.media])
                if item is not None:
                    yield _planned_row(number, sample, item, headers)

    def _preparer(self, config: RunConfig, data: DataSection, log: SkippedLog) -> Preparer:
        """As training has it, but for headers in place of pixels, no limit, and nothing that stops at bad rows."""
        changes = {"bad_row": "skip", "bad_media": "skip", "max_prompt_tokens": _NO_LIMIT}
        headers = self._headers.setdefault(data.video, HeaderCache(Path(config.cache.dir), data.video))
        return Preparer(
            cache=cast(Any, headers),  # which has what preparing asks of a cache, and no more
            opener=MediaOpener(data.video),  # for its settings: no process starts, for nothing is opened
            processor=self.processor,
            config=config,
            data=data.model_copy(update=changes),
            skipped=log,
            geometry_kind=self._geometry_kind,
        )

    def _geometry_kind(self, task: str) -> GeometryKind | None:
        return self.router.geometry_kind(task) if task in self.config.rewards.tasks else None


def data_section_at(config: RunConfig, dataset_key: str) -> DataSection:
    """The data section in which a dataset is written: of `stages.1.data.train.0` that of the second stage."""
    words = dataset_key.split(".")
    if words[0] == "data":
        return config.data
    data = config.stages[int(words[1])].data
    assert data is not None, "a dataset is counted again under a configuration that has it"
    return data


def _planned_row(number: int, sample: Sample, item: Prepared, headers: HeaderCache) -> PlannedRow:
    prompt = item.prompt
    media = tuple(
        _planned_medium(ref, entry, headers, budget=ref.budget or sample.modality)
        for ref, entry in zip(sample.media, prompt.media, strict=True)
    )
    return PlannedRow(number, sample.task, sample.where, len(prompt.prompt_ids_T), prompt.num_vision_tokens, media)


def _planned_medium(ref: MediaRef, entry: MediaEntry, headers: HeaderCache, *, budget: str) -> PlannedMedium:
    frames, size = headers.source_frames(ref)
    shape = entry.frames_F3HW.shape
    return PlannedMedium(
        entry=entry.key,
        kind=entry.kind,
        budget=budget,
        source_frames=frames,
        source_pixels=size[0] * size[1],
        frames=shape[0],
        pixels=shape[2] * shape[3],
        tokens=entry.num_tokens,
        grid_thw=entry.grid_thw,
    )


def _can_shrink(preparer: Preparer, sample: Sample, limit: int) -> bool:
    strict = replace(preparer, data=preparer.data.model_copy(update={"max_prompt_tokens": limit, "too_long": "shrink"}))
    try:
        strict.prepare([sample])
    except PromptTooLongError:
        return False
    return True
