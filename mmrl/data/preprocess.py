"""`mmrl preprocess`: every picture and clip of a configuration opened once, its pixels stored in the cache.

Media are told apart by path and budget first, by content after, so each is decoded once however often rows name it.
Nothing is held but names: an opened medium is written and let go. A run that was killed leaves whole entries only, and
the next run finds them and goes on with the rest.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mmrl.config.schema import DataSection, DatasetSection, RunConfig, VideoSection
from mmrl.data.budgets_of import resolve_budget
from mmrl.data.cache import Opener, PixelCache, Request
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenJob
from mmrl.data.readers import SampleSet, read_datasets
from mmrl.data.sample import Sample
from mmrl.data.skipped import SkippedLog
from mmrl.data.vision import VisionGeometry
from mmrl.errors import MediaError
from mmrl.models.load import geometry_of

FAILURES = "failures.jsonl"
_LISTED = 20
Name = TypeVar("Name")

# Sources are hashed this far ahead of the decoders, by threads: hashing waits for the disk and releases the GIL.
_HASH_THREADS = 4
_HASH_AHEAD = 32


@dataclass(frozen=True, slots=True)
class Medium:
    """Where a medium is named first. The sample is read when it is needed: rows may hold pixels."""

    samples: SampleSet
    section: DatasetSection
    row: int
    number: int

    @property
    def sample(self) -> Sample:
        return self.samples[self.row]

    def job(self, config: RunConfig, geometry: VisionGeometry) -> OpenJob:
        sample = self.sample
        ref = sample.media[self.number]
        return OpenJob(ref, resolve_budget(config, self.section, sample, ref), geometry)


@dataclass(frozen=True, slots=True)
class Failure:
    """A medium, or a row, that cannot be used: a line of failures.jsonl. path is None for a row that names none."""

    path: str | None
    where: str
    reason: str


@dataclass
class Outcome:
    """What happened to the media of a run so far: built + cached + repeated + failures = all.

    bad_rows are apart from them: rows whose media are not even looked at.
    """

    built: int = 0
    cached: int = 0
    repeated: int = 0
    failures: list[Failure] = field(default_factory=list)
    bad_rows: list[Failure] = field(default_factory=list)


def preprocess(config: RunConfig, *, rehash: bool = False, workers: int | None = None) -> int:
    """Fill the cache of a configuration. Returns 0, or 1 when anything failed (failures.jsonl in the cache lists it).

    rehash: read every source to hash it, whatever is remembered. workers: decoder processes; None: as configured.
    Media of all datasets are opened, the run's and the stages' own, for training and validation.
    """
    console = Console(stderr=True, soft_wrap=True)
    folder = Path(config.cache.dir)
    folder.mkdir(parents=True, exist_ok=True)
    cache = PixelCache(folder, verify=config.cache.verify, rehash=rehash)
    cache.remove_stale_temporaries()
    geometry = geometry_of(config.model)
    started = time.monotonic()
    with (folder / FAILURES).open("w", encoding="utf-8") as failures, _progress(console) as progress:
        run = _Run(config, cache, geometry, progress, failures)
        for data in data_sections(config):
            with MediaOpener(data.video, workers or data.decode_workers) as opener:
                run.fill(data, opener)
    console.print(_summary(run.outcome, cache, seconds=time.monotonic() - started), highlight=False)
    unusable = run.outcome.bad_rows + run.outcome.failures
    for failure in unusable[:_LISTED]:
        console.print(f"failed: {failure.where}: {failure.reason}", style="red", highlight=False, markup=False)
    if len(unusable) > _LISTED:
        more = f"... and {len(unusable) - _LISTED} more, see {folder / FAILURES}"
        console.print(more, style="red", highlight=False, markup=False)
    return 1 if unusable else 0


def data_sections(config: RunConfig) -> list[DataSection]:
    """The run's data and those that stages bring themselves."""
    return [config.data, *(stage.data for stage in config.stages if stage.data is not None)]


def distinct_media(
    config: RunConfig, data: DataSection, *, skipped: SkippedLog, sample_id: str | None = None
) -> list[Medium]:
    """Each (file, part of it, kind, budget) once, in the order of the rows; of one sample only, if its id is given.

    Bytes and pixels in rows and clips of frame files are told apart later, when they are hashed.
    """
    seen: set[tuple] = set()
    media = []
    for section, samples, row in _rows(data, skipped):
        sample = samples[row]
        if sample_id not in (None, sample.sample_id):
            continue
        for number, ref in enumerate(sample.media):
            budget = resolve_budget(config, section, sample, ref)
            name = (ref.source, ref.kind, budget, ref.start_s, ref.end_s) if ref.has_name else None
            if name is None or name not in seen:
                seen.update([] if name is None else [name])
                media.append(Medium(samples, section, row, number))
    return media


def _rows(data: DataSection, skipped: SkippedLog) -> Iterator[tuple[DatasetSection, SampleSet, int]]:
    for sections in (data.train, data.val):
        sets = read_datasets(sections, data=data, relative_to=Path.cwd(), skipped=skipped)
        for section, samples in zip(sections, sets, strict=True):
            for row in range(len(samples)):
                yield section, samples, row


class _Run:
    """Fills the cache from one data section after another."""

    def __init__(
        self, config: RunConfig, cache: PixelCache, geometry: VisionGeometry, progress: Progress, failures: IO[str]
    ) -> None:
        self.config, self.cache, self.geometry = config, cache, geometry
        self.outcome = Outcome()
        self._progress, self._failures = progress, failures
        self._task = progress.add_task("media", total=0, failed="")
        self._keys: set[str] = set()

    def fill(self, data: DataSection, opener: Opener) -> None:
        """Open and store whatever the data section names and the cache does not hold."""
        lenient = data.model_copy(update={"bad_row": "skip", "bad_media": "skip"})
        skipped = SkippedLog(None, max_fraction=1.0)
        media = distinct_media(self.config, lenient, skipped=skipped)
        for row in skipped.rows:
            self._failed(Failure(row.path, row.where, row.reason), self.outcome.bad_rows)
        self._progress.update(self._task, total=(self._progress.tasks[0].total or 0) + len(media))
        building: dict[str, Medium] = {}
        for request, result in self.cache.build_many(self._missing(media, opener.video, building), opener):
            medium = building.pop(request.key)
            if isinstance(result, MediaError):
                self._medium_failed(medium, result)
            else:
                self.outcome.built += 1
                self._advance()

    def _missing(self, media: Iterable[Medium], video: VideoSection, building: dict[str, Medium]) -> Iterator[Request]:
        jobs = ((medium, medium.job(self.config, self.geometry)) for medium in media)
        for medium, request in hashed_ahead(lambda job: self.cache.request(job, video), jobs):
            if isinstance(request, MediaError):
                self._medium_failed(medium, request)
            elif request.key in self._keys:
                self.outcome.repeated += 1
                self._advance()
            elif self.cache.find(request) is not None:
                self._keys.add(request.key)
                self.outcome.cached += 1
                self._advance()
            else:
                self._keys.add(request.key)
                building[request.key] = medium
                yield request

    def _medium_failed(self, medium: Medium, error: MediaError) -> None:
        self._failed(Failure(error.path, medium.sample.where, str(error)), self.outcome.failures)
        self._advance()

    def _failed(self, failure: Failure, failures: list[Failure]) -> None:
        failures.append(failure)
        self._failures.write(json.dumps(asdict(failure), ensure_ascii=False) + "\n")
        self._failures.flush()
        self._progress.update(self._task, failed=_failed_counts(self.outcome))

    def _advance(self) -> None:
        self._progress.advance(self._task)


def hashed_ahead(
    request: Callable[[OpenJob], Request], jobs: Iterable[tuple[Name, OpenJob]]
) -> Iterator[tuple[Name, Request | MediaError]]:
    """Requests in order, their sources hashed by threads a little ahead of the one that is handed out."""
    pending: deque[tuple[Name, Future[Request]]] = deque()
    with ThreadPoolExecutor(_HASH_THREADS, thread_name_prefix="hash") as pool:
        for medium, job in jobs:
            pending.append((medium, pool.submit(request, job)))
            if len(pending) > _HASH_AHEAD:
                yield _settled(*pending.popleft())
        while pending:
            yield _settled(*pending.popleft())


def _settled(name: Name, future: Future[Request]) -> tuple[Name, Request | MediaError]:
    try:
        return name, future.result()
    except MediaError as error:
        return name, error


def _progress(console: Console) -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console)


def _failed_counts(outcome: Outcome) -> str:
    rows = f", {len(outcome.bad_rows)} bad rows" if outcome.bad_rows else ""
    return f"{len(outcome.failures)} failed{rows}"


def _summary(outcome: Outcome, cache: PixelCache, *, seconds: float) -> str:
    metrics = cache.metrics()
    hashed = cache.hashes.bytes_hashed
    listed = f"; failures: {cache.folder / FAILURES}" if outcome.failures or outcome.bad_rows else ""
    return (
        f"{outcome.built} built, {outcome.cached} already cached, {outcome.repeated} of repeated content, "
        f"{_failed_counts(outcome)}; {metrics['rebuilt']} damaged entries rebuilt; "
        f"{metrics['bytes_written'] / 1e6:.1f} MB written, {hashed / 1e6:.1f} MB hashed in {seconds:.1f} s; "
        f"cache: {cache.folder}{listed}"
    )
