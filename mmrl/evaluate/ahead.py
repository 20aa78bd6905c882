"""Questions prepared ahead of the engine: their media are opened as processes become free, with no block to wait for.

What the cache holds is taken at once. What it lacks is opened in decoder processes, a medium a process, and a question
goes on when its last medium is there: a slow clip holds up its own questions and one process. A medium that several
questions lack is opened once.
"""

from __future__ import annotations

import heapq
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Self

from mmrl.config.schema import VideoSection
from mmrl.data.decoder import MediaOpener
from mmrl.data.feature_cache import MediaCache
from mmrl.data.opening import OpenJob
from mmrl.data.prepare import Prepared, Preparer
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Sample
from mmrl.data.skipped import SkippedLog
from mmrl.errors import LateMediaError, MediaError
from mmrl.evaluate.records import Status, status_of

# Questions whose media are being opened, for every process: enough that none of them waits for the next.
AHEAD = 2

Found = MediaEntry | MediaError
Todo = tuple[Preparer, Sequence[Sample], Sequence[int]]


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """A question that can be asked, or why it cannot. job: its place among the benchmarks."""

    job: int
    sample: Sample
    prepared: Prepared | None
    status: Status = "ok"
    reason: str = ""


class Openers:
    """Decoder processes, each with a thread that waits for it. A context manager.

    workers: 0: one per core.
    """

    def __init__(self, video: VideoSection, workers: int = 0) -> None:
        self.video, self.workers = video, workers or os.cpu_count() or 1
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="opener")
        self._own = threading.local()
        self._openers: list[MediaOpener] = []
        self._opening: dict[str, Future[Found]] = {}
        self._late: dict[str, LateMediaError] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for opener in self._openers:
            opener.close()

    def find(self, job: OpenJob, cache: MediaCache) -> Found | Future[Found]:
        """A medium that is in the cache or has no file, or the promise of one that is being opened. One thread asks."""
        try:
            request = cache.request(job, self.video)
        except MediaError as error:
            return error
        opening = self._opening.get(request.key)
        if opening is not None and not opening.done():
            return opening
        if request.key in self._late:  # its other questions do not wait as long again
            return self._late[request.key]
        if (entry := cache.find(request)) is not None:
            return entry
        self._opening = {key: future for key, future in self._opening.items() if not future.done()}
        self._opening[request.key] = self._threads.submit(self._open, request, cache)
        return self._opening[request.key]

    def _open(self, request: Any, cache: MediaCache) -> Found:
        if not hasattr(self._own, "opener"):
            self._own.opener = MediaOpener(self.video, workers=1)
            self._openers.append(self._own.opener)
        found = cache.build(request, self._own.opener)
        if isinstance(found, LateMediaError):
            self._late[request.key] = found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Opening:
    """A question on its way."""

    job: int
    sample: Sample
    media: tuple[Found | Future[Found], ...]

    @property
    def promises(self) -> set[Future[Found]]:
        return {medium for medium in self.media if isinstance(medium, Future) and not medium.done()}


def interleaved(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(job, place) of every item, so that at any time all jobs are done to the same share.

    >>> list(interleaved([4, 2]))
    [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (0, 3)]
    """

    def of(job: int, size: int) -> Iterator[tuple[float, int, int]]:
        return (((place + 0.5) / size, job, place) for place in range(size))

    yield from ((job, place) for _, job, place in heapq.merge(*itertools.starmap(of, enumerate(sizes))))


def questions(
    jobs: Sequence[Todo], openers: Openers, *, before_wait: Callable[[], object] = lambda: None
) -> Iterator[Ready]:
    """Every question of `jobs` (how they are prepared, the samples, indices of those to ask), as it becomes ready.

    At most AHEAD questions a process are under way while nobody takes one. before_wait: called when a medium must be
    waited for.
    """
    most = AHEAD * openers.workers
    opening: list[_Opening] = []
    for number, place in interleaved([len(todo) for _, _, todo in jobs]):
        preparer, samples, todo = jobs[number]
        sample = samples[todo[place]]
        media = tuple(openers.find(job, preparer.cache) for job in preparer.jobs(sample))
        opening.append(_Opening(number, sample, media))
        for item in _arrived(opening, leave=most - 1, before_wait=before_wait):
            yield _ready(item, preparer=jobs[item.job][0])
    for item in _arrived(opening, leave=0, before_wait=before_wait):
        yield _ready(item, preparer=jobs[item.job][0])


def _arrived(opening: list[_Opening], *, leave: int, before_wait: Callable[[], object]) -> Iterator[_Opening]:
    """Take out the questions whose media are there; wait until at most `leave` are left."""
    while True:
        there = [item for item in opening if not item.promises]
        opening[:] = [item for item in opening if item not in there]
        yield from there
        if len(opening) <= leave:
            return
        before_wait()
        wait(set().union(*(item.promises for item in opening)), return_when=FIRST_COMPLETED)


def _ready(item: _Opening, *, preparer: Preparer) -> Ready:
    media = [medium.result() if isinstance(medium, Future) else medium for medium in item.media]
    skipped = SkippedLog(None, max_fraction=1.0)
    prepared = replace(preparer, skipped=skipped).prepare_one(item.sample, media)
    if prepared is not None:
        return Ready(item.job, item.sample, prepared)
    [row] = skipped.rows
    return Ready(item.job, item.sample, None, status_of(row.kind), row.reason)
