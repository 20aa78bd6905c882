"""Opening many media in persistent decoder processes that can be killed.

A decoding library may hang in native code or crash the process; so clips are opened in processes of this framework's
own, one job at a time, each with a deadline. A process that hangs is killed and replaced, and only its job fails. They
are not a ProcessPoolExecutor, where killing one process breaks the pool. When fewer jobs are left than processes, those
that are still at work use the idle cores: long clips are read by several threads.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import weakref
from collections.abc import Iterable, Iterator

import numpy as np
import torch

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.channel import start_program
from mmrl.data.file_bytes import source_size
from mmrl.data.locations import PdfPage
from mmrl.data.opening import OpenedMedia, OpenJob, open_medium, reader_of
from mmrl.data.sample import MediaRef
from mmrl.data.shared_count import SharedCount
from mmrl.data.source import source_name
from mmrl.data.vision import VisionGeometry
from mmrl.errors import LateMediaError, MediaError, MmrlError

START_LIMIT_S = 300.0
"""Longest a decoder process may take to import its libraries (seconds on an idle machine)."""

Result = OpenedMedia | MediaError


class MediaOpener:
    """Opens pictures and clips under a budget; a context manager.

    workers: decoder processes at most; 0 means one per core. They start when first needed and live until `close`.

    `open` takes one medium: a clip or a PDF page goes to a decoder process; a picture is opened in the calling process,
    where no deadline holds. `open_many` sends all of them to the decoder processes, files that lie in a row with their
    bytes. Pixels that are already in memory are resized in the calling process: sending them away costs more.

    One call at a time: an `open_many` must be finished or closed before the next call, and threads need an opener
    each. `workers` bounds the threads of all processes together. Ctrl-C reaches the calling process only; when that
    ends, however it ends, its decoder processes end too.
    """

    def __init__(self, video: VideoSection, workers: int = 0) -> None:
        self.video = video
        self._limit = workers or os.cpu_count() or 1
        self._processes: list[_DecoderProcess] = []
        self._in_use = False
        self._finalizer = weakref.finalize(self, _kill_all, self._processes)

    def __enter__(self) -> MediaOpener:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """End all decoder processes. The opener starts new ones if it is used again."""
        _kill_all(self._processes)

    def open(self, ref: MediaRef, budget: BudgetClass, geometry: VisionGeometry) -> OpenedMedia:
        """One medium. Raises MediaError."""
        job = OpenJob(ref, budget, geometry)
        if ref.kind == "image" and not isinstance(ref.source, PdfPage):
            return open_medium(job, self.video)
        ((_, result),) = self.open_many([job])
        if isinstance(result, MediaError):
            raise result
        return result

    def open_many(self, jobs: Iterable[tuple[MediaRef, BudgetClass, VisionGeometry]]) -> Iterator[tuple[int, Result]]:
        """(number of the job, result or MediaError) of every job, in the order in which they finish.

        A job is drawn from `jobs` when a process is about to be free for it, so they may be made on the way.
        """
        assert not self._in_use, "finish or close the running open_many first"
        self._in_use = True
        try:
            yield from self._run((number, OpenJob(*job)) for number, job in enumerate(jobs))
        finally:
            self._in_use = False
            self._kill([process for process in self._processes if process.busy])

    def _run(self, jobs: Iterator[tuple[int, OpenJob]]) -> Iterator[tuple[int, Result]]:
        upcoming = next(jobs, None)
        finished: list[tuple[int, Result]] = []
        while upcoming or finished or any(process.busy for process in self._processes):
            # A process that is done gets its next job before anybody looks at its result, which may take a while.
            while upcoming:
                number, job = upcoming
                if isinstance(job.ref.source, np.ndarray):
                    yield number, _open_here(job, self.video)
                elif process := self._idle_process():
                    process.start_job(number, job, video=self.video)
                else:
                    break
                upcoming = next(jobs, None)
            self._share_cores(idle=0 if upcoming else self._limit)
            yield from finished
            finished = list(self._collect()) if any(process.busy for process in self._processes) else []

    def _share_cores(self, *, idle: int) -> None:
        """Say to each process at work how many threads it may use: one, and its share of the idle cores."""
        busy = [process for process in self._processes if process.busy]
        for place, process in enumerate(busy):
            process.threads.set(max(1, idle // len(busy) + (place < idle % len(busy))))

    def _idle_process(self) -> _DecoderProcess | None:
        for process in self._processes:
            if not process.busy:
                return process
        if len(self._processes) == self._limit:
            return None
        self._processes.append(_DecoderProcess())
        return self._processes[-1]

    def _collect(self) -> Iterator[tuple[int, Result]]:
        """Wait for an answer or a deadline; yield what is finished, kill what is late."""
        busy = [process for process in self._processes if process.busy]
        for process in _with_news(busy):
            number = process.number
            try:
                result = process.take()
            except EOFError:
                result = process.crash_report()
                self._kill([process])
            if result is not None:
                yield number, result
        for process in [process for process in self._processes if process.late]:
            number, result = process.number, process.hang_report(self.video)
            self._kill([process])
            yield number, result

    def _kill(self, processes: list[_DecoderProcess]) -> None:
        for process in processes:
            process.kill()
            self._processes.remove(process)


def deadline_s(ref: MediaRef, video: VideoSection) -> float:
    """Seconds that opening a medium may take: the more, the larger its file is."""
    return video.deadline_s + video.deadline_s_per_gb * source_size(ref) / 1e9


class _DecoderProcess:
    """One decoder process and the job it works on."""

    def __init__(self) -> None:
        single = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self.threads = SharedCount()
        self._popen, self.channel = start_program("mmrl.data.decode_worker", self.threads.fileno(), **single)
        self.number = -1
        self._job: OpenJob | None = None
        self._ready = False
        self._deadline = 0.0
        self._job_seconds = 0.0

    @property
    def busy(self) -> bool:
        return self._job is not None

    @property
    def late(self) -> bool:
        return self.busy and time.monotonic() >= self._deadline and not _with_news([self], wait=False)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def start_job(self, number: int, job: OpenJob, *, video: VideoSection) -> None:
        self.number, self._job = number, job
        self._job_seconds = deadline_s(job.ref, video)
        self._deadline = time.monotonic() + (self._job_seconds if self._ready else START_LIMIT_S)
        with contextlib.suppress(ConnectionError):  # it died while idle; reading its answer reports that
            self.channel.send((tuple(job), video))

    def take(self) -> Result | None:
        """The answer; None for the sign that the process is ready, from when on the job's own deadline holds."""
        message, payload = self.channel.receive()
        if message is None:
            self._ready, self._deadline = True, time.monotonic() + self._job_seconds
            return None
        self._job = None
        if isinstance(message[0], str):
            return MediaError(*message)
        fields, shape = message
        return OpenedMedia(frames_F3HW=torch.from_numpy(payload).view(shape), **fields)

    def crash_report(self) -> MediaError:
        """What to say of a process that is gone. One that never became ready is no fault of the medium."""
        code = self._popen.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if not self._ready:
            raise MmrlError(f"a decoder process ended with {how} before it was ready; its output is above")
        return self._error(f"the decoder process died of {how} while opening it")

    def hang_report(self, video: VideoSection) -> LateMediaError:
        if not self._ready:
            raise MmrlError(f"a decoder process was not ready after {START_LIMIT_S:g} s; is the machine overloaded?")
        assert self._job is not None
        reader = reader_of(self._job.ref, video).partition(" ")[0]
        reason = f"reader {reader} hung for {round(self._job_seconds, 2):g} s (data.video.deadline_s) and was killed"
        return LateMediaError(source_name(self._job.ref), reason)

    def _error(self, reason: str) -> MediaError:
        assert self._job is not None
        return MediaError(source_name(self._job.ref), reason)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()
        self.channel.close()
        self.threads.close()


def _with_news(processes: list[_DecoderProcess], *, wait: bool = True) -> list[_DecoderProcess]:
    """Those that sent something or died; waits for the first, but not beyond a deadline."""
    if not processes:
        return []
    poll = select.poll()
    for process in processes:
        poll.register(process.channel, select.POLLIN)
    timeout_s = min(process.seconds_left for process in processes) if wait else 0.0
    ready = {fd for fd, _ in poll.poll(timeout_s * 1000)}
    return [process for process in processes if process.channel.fileno() in ready]


def _open_here(job: OpenJob, video: VideoSection) -> Result:
    try:
        return open_medium(job, video)
    except MediaError as error:
        return error


def _kill_all(processes: list[_DecoderProcess]) -> None:
    while processes:
        processes.pop().kill()
