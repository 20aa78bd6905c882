"""PixelCache: every medium opened and resized once, then shared by rollout, training and evaluation.

    <dir>/pixels/ab/<key>.safetensors   one medium (entry_file.py); key = sha256(content hash, recipe)
    <dir>/downloads/<sha256>       a medium on the web, as it was fetched (downloads.py)
    <dir>/content_hashes.jsonl          what is known of source files (fingerprint.py)

A reader asks for (source, recipe) and gets that entry or a miss. An entry holds its recipe and its source's hash, and
both are compared when it is read, so pixels of another recipe or content cannot be returned, whatever the file's name.
Writers in any number of processes may fill one cache: entries appear by rename, whole.

Shape letters: F frames, H/W pixels.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.downloads import FOLDER as DOWNLOADS
from mmrl.data.downloads import fetched
from mmrl.data.entry_file import StoredEntry, entry_blocks, read_entry
from mmrl.data.fingerprint import ContentHashes, Fingerprint
from mmrl.data.opening import OpenedMedia, OpenJob
from mmrl.data.recipe import Recipe, differences, recipe_of
from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import MediaRef
from mmrl.data.source import source_name
from mmrl.data.storage import Storage
from mmrl.data.vision import VisionGeometry
from mmrl.errors import CacheCorruptError, CacheError, CacheMissError, CacheRecipeError, ChangedMediaError, MediaError

log = logging.getLogger(__name__)

# A write waits for the disk (sync), so a few at a time hide that from the decoders; more would only hold memory.
_WRITERS = 4

PIXELS = "pixels"


class Opener(Protocol):
    """What the cache needs of `mmrl.data.decoder.MediaOpener`."""

    @property
    def video(self) -> VideoSection: ...

    def open(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry) -> OpenedMedia: ...

    def open_many(self, jobs: Iterable[OpenJob]) -> Iterator[tuple[int, OpenedMedia | MediaError]]: ...


@dataclass(slots=True)
class CacheMetrics:
    """Counts since the last reset. hits + misses + rebuilt = media asked for.

    rebuilt: entries found damaged and made again. bytes: of entry files. seconds_open: looking up, mapping and
    verifying; seconds_build: waiting for media to be opened and written.
    """

    hits: int = 0
    misses: int = 0
    rebuilt: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    seconds_open: float = 0.0
    seconds_build: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A job with its names: the content hash of its source, its recipe, and the key that both make."""

    job: OpenJob
    source: Fingerprint
    recipe: Recipe
    key: str

    @property
    def name(self) -> str:
        """How messages name the medium: its path or other place, or its content hash when it was made in memory."""
        ref = self.job.ref
        return f"{ref.kind} {self.source.sha256[:12]}" if isinstance(ref.source, np.ndarray) else source_name(ref)


class PixelCache:
    """The pixel level of the cache in a folder.

    on_miss: `build` opens and stores what is missing or damaged; `error` raises CacheMissError, CacheCorruptError or
    CacheRecipeError. verify: checksums are compared on the `first` open of an entry by this object, `always` or
    `never` (a cut file and a wrong recipe are found even then). rehash: forget remembered content hashes. storage:
    object storage behind the folder, compression.
    """

    INDEX = "content_hashes.jsonl"

    def __init__(
        self,
        folder: Path,
        *,
        on_miss: Literal["build", "error"] = "build",
        verify: Literal["first", "always", "never"] = "first",
        rehash: bool = False,
        storage: Storage | None = None,
    ) -> None:
        self.folder = folder
        self.storage = storage or Storage()
        self.on_miss = on_miss
        self.verify = verify
        self.hashes = ContentHashes(folder / self.INDEX, rehash=rehash)
        self.store = self.storage.open(folder, PIXELS)
        self._verified: dict[str, tuple[int, ...]] = {}
        self._metrics = CacheMetrics()

    def metrics(self) -> dict[str, float]:
        """The fields of CacheMetrics by name."""
        return asdict(self._metrics)

    def reset_metrics(self) -> None:
        self._metrics = CacheMetrics()

    def get(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry, opener: Opener) -> MediaEntry:
        """The entry of a medium: mapped from its file, or opened and stored first when there is none.

        Raises MediaError when the source cannot be opened, and see the class for what `on_miss` decides.
        """
        request = self.request(OpenJob(ref, budget, geometry), opener.video)
        entry = self.find(request)
        if entry is None:
            started = time.perf_counter()
            entry = self._store(request, opener.open(*request.job))
            self.store.sync()
            self._metrics.seconds_build += time.perf_counter() - started
        return entry

    def get_many(self, jobs: Iterable[OpenJob], opener: Opener) -> Iterator[tuple[int, MediaEntry | MediaError]]:
        """(index of the job, its entry or why it cannot be opened), entries at hand first, the rest as built.

        Misses are opened in parallel by the opener; jobs that mean the same entry are opened once.
        """
        missing: dict[str, tuple[Request, list[int]]] = {}
        for index, job in enumerate(jobs):
            try:
                request = self.request(job, opener.video)
            except MediaError as error:
                yield index, error
                continue
            if request.key in missing:
                missing[request.key][1].append(index)
            elif (entry := self.find(request)) is not None:
                yield index, entry
            else:
                missing[request.key] = (request, [index])
        for request, result in self.build_many((request for request, _ in missing.values()), opener):
            for index in missing[request.key][1]:
                yield index, result

    def memory_entry(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry, opener: Opener) -> MediaEntry:
        """An entry that no file keeps, for pixels made on the way (noise, drawn prompts); its key is its content's.

        `get` with the same pixels stores them and returns an entry of the same key.
        """
        request = self.request(OpenJob(ref, budget, geometry), opener.video)
        opened = opener.open(*request.job)
        return _media_entry(request, _stored(request, opened))

    def local(self, ref: MediaRef, *, may_fetch: bool = True) -> MediaRef:
        """A medium with every URL's file on this machine; itself where it has none. Raises MediaError."""
        return fetched(ref, self.folder / DOWNLOADS, may_fetch=may_fetch and self.on_miss == "build")

    def request(self, job: OpenJob, video: VideoSection) -> Request:
        """Names of a medium's entry; reads the source only if its hash is not remembered. Raises MediaError."""
        ref = self.local(job.ref)
        job = OpenJob(ref, job[1], job[2])
        content = self.hashes.of_medium(ref)
        recipe = recipe_of(job, video)
        key = recipe.key(content)
        return Request(job, content, recipe, key)

    def find(self, request: Request) -> MediaEntry | None:
        """The stored entry, or None when it has to be built. Raises the errors of `on_miss: error`."""
        started = time.perf_counter()
        try:
            stored = self._read(request)
        except (CacheCorruptError, CacheRecipeError) as error:
            return self._damaged(error)
        if stored is None:
            return self._miss(request)
        self._metrics.hits += 1
        self._metrics.bytes_read += stored.frames_F3HW.nbytes
        self._metrics.seconds_open += time.perf_counter() - started
        return _media_entry(request, stored)

    def build_many(
        self, requests: Iterable[Request], opener: Opener
    ) -> Iterator[tuple[Request, MediaEntry | MediaError]]:
        """Open and store media, yielding each as it is done. `requests` is drawn from only as the opener needs more.

        At most a few opened media are held at a time, however many there are.
        """
        results = self._open_and_store(requests, opener)
        while True:
            started = time.perf_counter()
            item = next(results, None)
            self._metrics.seconds_build += time.perf_counter() - started
            if item is None:
                return
            yield item

    def build(self, request: Request, opener: Opener) -> MediaEntry | MediaError:
        """Open and store one medium, all but the opening in the calling thread; the opener opens nothing else."""
        started = time.perf_counter()
        try:
            ((_, opened),) = opener.open_many([request.job])
            return opened if isinstance(opened, MediaError) else self._store(request, opened)
        except MediaError as error:
            return error
        finally:
            self._metrics.seconds_build += time.perf_counter() - started
            self.store.sync()

    def remove_stale_temporaries(self) -> int:
        """Remove what writers that were killed left behind. Returns bytes."""
        return self.store.remove_stale_temporaries()

    def _open_and_store(
        self, requests: Iterable[Request], opener: Opener
    ) -> Iterator[tuple[Request, MediaEntry | MediaError]]:
        drawn: dict[int, Request] = {}

        def jobs() -> Iterator[OpenJob]:
            for index, request in enumerate(requests):
                drawn[index] = request
                yield request.job

        pending: deque[tuple[Request, Future[MediaEntry] | MediaError]] = deque()
        try:
            with ThreadPoolExecutor(_WRITERS, thread_name_prefix="cache-writer") as pool:
                for index, opened in opener.open_many(jobs()):
                    request = drawn.pop(index)
                    failed = isinstance(opened, MediaError)
                    pending.append((request, opened if failed else pool.submit(self._store, request, opened)))
                    if len(pending) > _WRITERS:
                        yield _finished(*pending.popleft())
                while pending:
                    yield _finished(*pending.popleft())
        finally:
            self.store.sync()

    def _store(self, request: Request, opened: OpenedMedia) -> MediaEntry:
        """Write an entry and open it as a reader would, which verifies what was written."""
        ref = request.job.ref
        if not isinstance(ref.source, np.ndarray) and self.hashes.of_medium(ref) != request.source:
            raise ChangedMediaError(source_name(ref), "changed while it was being opened")
        blocks = entry_blocks(_stored(request, opened), compress=self.storage.compress)
        self._metrics.bytes_written += self.store.write(request.key, blocks)
        stored = self._read(request)
        if stored is None:
            raise CacheError(f"{request.name}: its entry was removed from {self.folder} while it was being written")
        return _media_entry(request, stored)

    def _read(self, request: Request) -> StoredEntry | None:
        """Map an entry and compare it with what was asked for; the checksum too, as `verify` says. None: no entry."""
        mapped = self.store.find(request.key)
        if mapped is None:
            return None
        check = self.verify == "always" or (self.verify == "first" and self._verified.get(request.key) != mapped.stamp)
        stored = read_entry(mapped.where, mapped.bytes_N, verify=check)
        if stored.recipe != request.recipe.text or stored.source != request.source.text:
            raise CacheRecipeError(_mismatch(request, stored, mapped.where))
        if check:
            self._verified[request.key] = mapped.stamp
        return stored

    def _miss(self, request: Request) -> None:
        self._metrics.misses += 1
        if self.on_miss == "error":
            raise CacheMissError(
                f"{request.name}: not in the cache {self.store.place} and cache.on_miss is error; run "
                "`mmrl preprocess` with this configuration, or ask `mmrl cache explain` what differs"
            )

    def _damaged(self, error: CacheCorruptError | CacheRecipeError) -> None:
        if self.on_miss == "error":
            raise error
        self._metrics.rebuilt += 1
        log.warning("rebuilding a cache entry: %s", error)


def _finished(request: Request, result: Future[MediaEntry] | MediaError) -> tuple[Request, MediaEntry | MediaError]:
    if isinstance(result, MediaError):
        return request, result
    try:
        return request, result.result()
    except MediaError as error:
        return request, error


def _mismatch(request: Request, stored: StoredEntry, where: str) -> str:
    if stored.source != request.source.text:
        return f"{where}: holds another source's pixels than {request.name}"
    return f"{where}: stored under another recipe's name: " + "; ".join(
        differences(request.recipe, Recipe(stored.recipe))
    )


def _stored(request: Request, opened: OpenedMedia) -> StoredEntry:
    """An opened medium as its entry holds it."""
    medium = {
        "grid_thw": list(opened.grid_thw),
        "num_tokens": opened.num_tokens,
        "source_size": list(opened.source_size),
        "source_fps": opened.source_fps,
        "duration_s": opened.duration_s,
        "sample_fps": opened.sample_fps,
    }
    return StoredEntry(
        recipe=request.recipe.text,
        source=request.source.text,
        medium=medium,
        frames_F3HW=opened.frames_F3HW,
        timestamps_s=opened.timestamps_s,
        frame_indices=opened.frame_indices,
    )


def _media_entry(request: Request, stored: StoredEntry) -> MediaEntry:
    medium = stored.medium
    return MediaEntry(
        key=request.key,
        kind=request.job.ref.kind,
        frames_F3HW=stored.frames_F3HW,
        grid_thw=tuple(medium["grid_thw"]),
        num_tokens=medium["num_tokens"],
        source_size=tuple(medium["source_size"]),
        timestamps_s=stored.timestamps_s,
        frame_indices=stored.frame_indices,
        source_fps=medium["source_fps"],
        duration_s=medium["duration_s"],
        sample_fps=medium["sample_fps"],
    )
