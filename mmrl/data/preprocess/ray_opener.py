"""Decoders on the machines of a Ray cluster, through Ray Data, in the place of this machine's own processes.

Every worker of Ray keeps a decoder process of its own, so that a medium that hangs costs its deadline there as here.
The sources must lie at the same places on all machines; pixels come back to the process that writes the cache.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import Any

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenedMedia, OpenJob
from mmrl.data.sample import MediaRef
from mmrl.data.vision import VisionGeometry
from mmrl.errors import ConfigError, LateMediaError, MediaError

INSTALL = "pip install 'mmrl[ray]'"

BATCH = 1000
"""Media that one execution of Ray Data is given: names of so many are held at a time."""


_ERRORS = {"MediaError": MediaError, "LateMediaError": LateMediaError}


class RayOpener:
    """What PixelCache needs of an opener; a context manager. Raises ConfigError where Ray is not installed.

    It joins the cluster that RAY_ADDRESS names, or starts Ray on this machine.
    """

    def __init__(self, video: VideoSection) -> None:
        try:
            import ray.data  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ConfigError(f"--ray needs Ray Data, which cannot be imported ({error}); {INSTALL}") from error
        self.video, self._ray = video, ray
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            ray.init(log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False

    def __enter__(self) -> RayOpener:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._is_ours:
            self._ray.shutdown()

    def open(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry) -> OpenedMedia:
        """One medium. Raises MediaError."""
        ((_, result),) = self.open_many([OpenJob(ref, budget, geometry)])
        if isinstance(result, MediaError):
            raise result
        return result

    def open_many(self, jobs: Iterable[OpenJob]) -> Iterator[tuple[int, OpenedMedia | MediaError]]:
        """(number of the job, result or MediaError) of every job, as they finish."""
        waiting: list[dict[str, Any]] = []
        for number, job in enumerate(jobs):
            waiting.append({"number": number, "job": pickle.dumps(tuple(job))})
            if len(waiting) == BATCH:
                yield from self._open(waiting)
                waiting = []
        if waiting:
            yield from self._open(waiting)

    def _open(self, rows: list[dict[str, Any]]) -> Iterator[tuple[int, OpenedMedia | MediaError]]:
        cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        data = self._ray.data.from_items(rows, override_num_blocks=len(rows))
        workers = min(cores, len(rows))
        opened = data.map(_Decoder, fn_constructor_args=(self.video,), concurrency=workers, num_cpus=1)
        for row in opened.iter_rows():
            result, error = pickle.loads(row["result"])
            yield row["number"], result if error is None else _ERRORS[error[0]](*error[1:])


class _Decoder:
    """A worker of Ray: one decoder process, and the jobs that come to it."""

    def __init__(self, video: VideoSection) -> None:
        self._opener = MediaOpener(video, workers=1)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        ((_, result),) = self._opener.open_many([OpenJob(*pickle.loads(row["job"]))])
        error = None
        if isinstance(result, MediaError):
            result, error = None, (type(result).__name__, result.path, result.reason)
        return {"number": row["number"], "result": pickle.dumps((result, error))}
