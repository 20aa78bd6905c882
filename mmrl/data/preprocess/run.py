"""Filling the cache of a configuration.

Media are told apart by path and budget first, by content after, so each is decoded once however often rows name it.
Nothing is held but names: an opened medium is written and let go. A run that was killed leaves whole entries only, and
the next run finds them and goes on with the rest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Literal

from rich.console import Console
from rich.progress import Progress

from mmrl.config.schema import DataSection, RunConfig, VideoSection
from mmrl.data.cache import Opener, PixelCache, Request
from mmrl.data.decoder import MediaOpener
from mmrl.data.preprocess.features import FeatureMaker
from mmrl.data.preprocess.hashing import hashed_ahead
from mmrl.data.preprocess.media import Medium, data_sections, distinct_media
from mmrl.data.preprocess.outcome import Failure, Outcome
from mmrl.data.preprocess.progress import progress_line
from mmrl.data.rendered import MediaEntry
from mmrl.data.skipped import SkippedLog
from mmrl.data.vision import VisionGeometry
from mmrl.errors import MediaError
from mmrl.models.load import geometry_of

FAILURES = "failures.jsonl"
_LISTED = 20


@dataclass(frozen=True)
class Options:
    """What the command line says of a run, beside the configuration.

    rehash: read every source to hash it, whatever is remembered. workers: decoder processes; None: as configured.
    level: features are made beside the pixels, with the configuration's model.
    """

    rehash: bool = False
    workers: int | None = None
    level: Literal["pixels", "features"] = "pixels"


def preprocess(config: RunConfig, options: Options | None = None) -> int:
    """Fill the cache of a configuration. Returns 0, or 1 when anything failed (failures.jsonl in the cache lists it).

    Media of all datasets are opened, the run's and the stages' own, for training and validation.
    """
    options = options or Options()
    console = Console(stderr=True, soft_wrap=True)
    folder = Path(config.cache.dir)
    folder.mkdir(parents=True, exist_ok=True)
    cache = PixelCache(folder, verify=config.cache.verify, rehash=options.rehash)
    cache.remove_stale_temporaries()
    geometry = geometry_of(config.model)
    features = FeatureMaker(config, cache) if options.level == "features" else None
    started = time.monotonic()
    with (folder / FAILURES).open("w", encoding="utf-8") as failures, progress_line(console) as progress:
        run = _Run(config, cache, geometry, progress, failures, features)
        for data in data_sections(config):
            with MediaOpener(data.video, options.workers or data.decode_workers) as opener:
                run.fill(data, opener)
    listed = folder / FAILURES
    seconds = time.monotonic() - started
    console.print(run.outcome.summary(cache, seconds=seconds, listed=str(listed)), highlight=False)
    if features is not None:
        console.print(features.summary, highlight=False)
    return _tell_failures(run.outcome, console, listed)


def _tell_failures(outcome: Outcome, console: Console, listed: Path) -> int:
    unusable = outcome.bad_rows + outcome.failures
    for failure in unusable[:_LISTED]:
        console.print(f"failed: {failure.where}: {failure.reason}", style="red", highlight=False, markup=False)
    if len(unusable) > _LISTED:
        more = f"... and {len(unusable) - _LISTED} more, see {listed}"
        console.print(more, style="red", highlight=False, markup=False)
    return 1 if unusable else 0


class _Run:
    """Fills the cache from one data section after another."""

    def __init__(
        self,
        config: RunConfig,
        cache: PixelCache,
        geometry: VisionGeometry,
        progress: Progress,
        failures: IO[str],
        features: FeatureMaker | None,
    ) -> None:
        self.config, self.cache, self.geometry, self.features = config, cache, geometry, features
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
                self._has_entry(request, result, opener.video)

    def _missing(self, media: Iterable[Medium], video: VideoSection, building: dict[str, Medium]) -> Iterator[Request]:
        jobs = ((medium, medium.job(self.config, self.geometry)) for medium in media)
        for medium, request in hashed_ahead(lambda job: self.cache.request(job, video), jobs):
            if isinstance(request, MediaError):
                self._medium_failed(medium, request)
            elif request.key in self._keys:
                self.outcome.repeated += 1
                self._advance()
            elif (entry := self.cache.find(request)) is not None:
                self._keys.add(request.key)
                self.outcome.cached += 1
                self._has_entry(request, entry, video)
            else:
                self._keys.add(request.key)
                building[request.key] = medium
                yield request

    def _has_entry(self, request: Request, entry: MediaEntry, video: VideoSection) -> None:
        """Called once for each distinct entry, found or built; what is made from pixels is made here."""
        if self.features is not None:
            self.features.make(request, entry, video)
        self._advance()

    def _medium_failed(self, medium: Medium, error: MediaError) -> None:
        self._failed(Failure(error.path, medium.sample.where, str(error)), self.outcome.failures)
        self._advance()

    def _failed(self, failure: Failure, failures: list[Failure]) -> None:
        failures.append(failure)
        self._failures.write(json.dumps(asdict(failure), ensure_ascii=False) + "\n")
        self._failures.flush()
        self._progress.update(self._task, failed=self.outcome.failed_counts)

    def _advance(self) -> None:
        self._progress.advance(self._task)
