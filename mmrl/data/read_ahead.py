"""Media of the next batches, opened by a thread while the present one is answered and learnt from.

What is read ahead changes when media are opened, not what they are: rows that are drawn otherwise than expected are
opened when they come, and what nobody asks for is let go. A failure is not kept: it is met again by who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Sample
from mmrl.errors import MediaError, MmrlError

Media = list[MediaEntry | MediaError]
_PAGE = 4096


class ReadAhead:
    """One thread and the media it has ready, by sample. Everything but the reading is called by one other thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "reading")
        self._job: Future[dict[tuple[str, str], Media]] | None = None
        self._ready: dict[tuple[str, str], Media] = {}

    def begin(self, preparer: Any, samples: Sequence[Sample], *, pin: bool) -> None:
        """Open the media of these samples, and let go of those of others. `preparer`: a mmrl.data.prepare.Preparer,
        whose opener is the thread's until `settle`. pin: copy pixels into pinned memory, from which a GPU takes them
        while it computes.
        """
        self.settle()
        self._ready = {_key(sample): self._ready[_key(sample)] for sample in samples if _key(sample) in self._ready}
        new = {_key(sample): sample for sample in samples if _key(sample) not in self._ready and _has_files(sample)}
        if new:
            self._job = self._thread.submit(_read, preparer, new, pin=pin)

    def settle(self) -> None:
        """Wait for what is under way."""
        job, self._job = self._job, None
        if job is None:
            return
        try:
            self._ready.update(job.result())
        except MmrlError:  # who asks for the medium meets it again
            return

    def take(self, sample: Sample) -> Media | None:
        """The media of a sample, once; None where they were not read. Call `settle` before."""
        return self._ready.pop(_key(sample), None)

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)
        self._ready.clear()


def _key(sample: Sample) -> tuple[str, str]:
    return sample.dataset, sample.sample_id


def _has_files(sample: Sample) -> bool:
    """Whether its media are named: pixels made in memory are there already."""
    return bool(sample.media) and not any(isinstance(ref.source, np.ndarray) for ref in sample.media)


def _read(preparer: Any, samples: dict[tuple[str, str], Sample], *, pin: bool) -> dict[tuple[str, str], Media]:
    jobs = {key: preparer.jobs(sample) for key, sample in samples.items()}
    found = _open([job for part in jobs.values() for job in part], preparer)
    media: dict[tuple[str, str], Media] = {}
    number = 0
    for key, part in jobs.items():
        entries = [found.get(number + place) for place in range(len(part))]
        number += len(part)
        if all(entry is not None for entry in entries):
            media[key] = [_in_memory(entry, pin=pin) for entry in entries if entry is not None]
    return media


def _open(jobs: list[Any], preparer: Any) -> dict[int, MediaEntry | MediaError]:
    """By number of the job. A medium whose features have yet to be made has only its pixels stored: the modules that
    make them are those that train.
    """
    cache, opener = preparer.cache, preparer.opener
    if not hasattr(cache, "find_features"):
        return dict(cache.get_many(jobs, opener))
    found: dict[int, MediaEntry | MediaError] = {}
    missing = []
    for number, job in enumerate(jobs):
        try:
            entry = cache.find_features(cache.request(job, opener.video))
        except MediaError as error:
            found[number] = error
            continue
        if entry is None:
            missing.append(job)
        else:
            found[number] = entry
    for _ in cache.pixels.get_many(missing, opener):
        pass
    return found


def _in_memory(entry: MediaEntry | MediaError, *, pin: bool) -> MediaEntry | MediaError:
    """The entry with its pages read: mapped files are else read when they are first used."""
    if isinstance(entry, MediaError):
        return entry
    features = getattr(entry, "features", None)
    if features is not None:
        for tensor in (features.tokens_KD, *features.deepstack):
            _touch(tensor)
        return entry
    if pin:
        return replace(entry, frames_F3HW=entry.frames_F3HW.pin_memory())
    _touch(entry.frames_F3HW)
    return entry


def _touch(tensor: torch.Tensor) -> None:
    """Read one value of every page."""
    tensor.reshape(-1)[:: max(1, _PAGE // tensor.element_size())].sum()
