"""Filling the cache with the decoder processes of this machine.

Media are told apart by path and budget first, by content after, so each is decoded once however often rows name it.
Nothing is held but names: an opened medium is written and let go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mmrl.config.schema import RunConfig, VideoSection
from mmrl.data.cache import Opener, PixelCache, Request
from mmrl.data.decoder import deadline_s
from mmrl.data.preprocess.hashing import hashed_ahead
from mmrl.data.preprocess.ledger import Ledger
from mmrl.data.preprocess.outcome import Failure
from mmrl.data.preprocess.quarantine import Quarantine
from mmrl.data.preprocess.work import Work
from mmrl.data.rendered import MediaEntry
from mmrl.data.vision import VisionGeometry
from mmrl.errors import CacheError, MediaError

OnEntry = Callable[[Request, MediaEntry, VideoSection], None]


class Limit:
    """Stops a run at the size that `cache.max_gb` allows, should the estimate have been too low."""

    def __init__(self, cache: PixelCache, *, there: int, max_gb: float | None) -> None:
        self._cache, self._there, self._max_gb = cache, there, max_gb

    def check(self) -> None:
        written = self._there + self._cache.metrics()["bytes_written"]
        if self._max_gb is not None and written > self._max_gb * 1e9:
            fact = f"{self._cache.folder} has reached cache.max_gb {self._max_gb:g}"
            raise CacheError(f"{fact}; what it holds is whole, and with more room the same command goes on from there")


class Filler:
    """Fills the cache from one list of work after another.

    on_entry: called once for each distinct entry, found or built; what is made from pixels is made there.
    """

    def __init__(
        self,
        config: RunConfig,
        cache: PixelCache,
        geometry: VisionGeometry,
        ledger: Ledger,
        quarantine: Quarantine,
        limit: Limit,
        on_entry: OnEntry | None = None,
    ) -> None:
        self.config, self.cache, self.geometry = config, cache, geometry
        self._ledger, self._quarantine, self._limit, self._on_entry = ledger, quarantine, limit, on_entry
        self._keys: set[str] = set()

    def fill(self, work: Sequence[Work], opener: Opener) -> None:
        """Open and store what the cache does not hold, in the order of the list as decoders become free."""
        video = opener.video
        building: dict[str, Work] = {}
        for request, result in self.cache.build_many(self._missing(work, video, building), opener):
            done = building.pop(request.key)
            if isinstance(result, MediaError):
                self._quarantine.add(request, result, deadline_s=deadline_s(request.job.ref, video))
                self._failed(done, result)
                continue
            self._quarantine.release(request)
            self._has_entry(request, result, video)
            self._ledger.built(done.size)
            self._limit.check()

    def _missing(self, work: Sequence[Work], video: VideoSection, building: dict[str, Work]) -> Iterator[Request]:
        jobs = ((one, one.medium.job(self.config, self.geometry)) for one in work)
        for one, request in hashed_ahead(lambda job: self.cache.request(job, video), jobs):
            if isinstance(request, MediaError):
                self._failed(one, request)
            elif request.key in self._keys:
                self._ledger.repeated(one.size)
            elif (entry := self.cache.find(request)) is not None:
                self._keys.add(request.key)
                self._has_entry(request, entry, video)
                self._ledger.cached(one.size)
            elif why := self._quarantine.reason(request, deadline_s=deadline_s(request.job.ref, video)):
                self._failed(one, MediaError(request.name, why))
            else:
                self._keys.add(request.key)
                building[request.key] = one
                yield request

    def _has_entry(self, request: Request, entry: MediaEntry, video: VideoSection) -> None:
        if self._on_entry is not None:
            self._on_entry(request, entry, video)

    def _failed(self, work: Work, error: MediaError) -> None:
        self._ledger.failed(Failure(error.path, work.medium.sample.where, str(error)), work.size)
