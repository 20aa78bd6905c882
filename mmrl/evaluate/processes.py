"""Several engines on this machine (`mmrl evaluate --dp`), each a process with its own GPU, or its share of the cores.

A question goes to the engine with the most room. Its seed is its own: which engine has it changes nothing. When an
engine ends, its questions go to the others; one that two engines ended with has failed.
"""

from __future__ import annotations

import logging
import os
import select
import signal
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

import torch

from mmrl.data.channel import start_program
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, EngineError
from mmrl.evaluate.engines import LocalEngine, News
from mmrl.evaluate.flight import Answered, Failure, SizedFlight
from mmrl.rollout.server.wire import WeightsId, pack_request
from mmrl.rollout.types import Request

LOG = logging.getLogger("mmrl.evaluate")
PROGRAM = "mmrl.evaluate.engine_process"
_LOOK_MS = 20
_MOST_ENDED = 2  # engines that may end while they have a question
_OWN = WeightsId("evaluate", 0, 0)  # each engine has the model's own weights


def shares_of_machine(count: int, gpus: Sequence[str], threads: int) -> list[dict[str, str]]:
    """The environment of each of `count` engines. gpus: those there are. threads: of all together, without GPUs.

    >>> shares_of_machine(2, ["4", "5", "6"], 16)
    [{'CUDA_VISIBLE_DEVICES': '4'}, {'CUDA_VISIBLE_DEVICES': '5'}]
    >>> shares_of_machine(3, [], 8)[0]
    {'OMP_NUM_THREADS': '2'}
    """
    if not gpus:
        return [{"OMP_NUM_THREADS": str(max(1, threads // count))}] * count
    if count > len(gpus):
        raise ConfigError(f"--dp {count}: each engine has a GPU of its own, and there are {len(gpus)}")
    return [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus[:count]]


def visible_gpus() -> list[str]:
    """As CUDA_VISIBLE_DEVICES names them, or by their numbers."""
    numbers = [str(number) for number in range(torch.cuda.device_count())]
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return named[: len(numbers)] or numbers


class ProcessFlight(SizedFlight):
    """A context manager; it waits for all engines to be open. Raises what an engine that cannot open says."""

    def __init__(self, engine: LocalEngine, *, count: int) -> None:
        super().__init__(0)
        threads = int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))
        shares = shares_of_machine(count, visible_gpus(), threads)
        self._engines = [_EngineProcess(number, engine, share) for number, share in enumerate(shares, start=1)]
        self._waiting: deque[Request] = deque()
        self._ended_with: Counter[str] = Counter()
        self._lost: list[str] = []

    def __enter__(self) -> Self:
        try:
            for engine in self._engines:
                engine.open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._engines:
            engine.end()

    @property
    def room(self) -> int:
        return sum(engine.room for engine in self._engines) - len(self._waiting)

    @property
    def is_busy(self) -> bool:
        """Also while no engine says that it has room: what it says must be heard."""
        return self._count > 0 or self.room <= 0

    def add(self, request: Request, sample: Sample | None = None) -> Failure | None:
        self._waiting.append(request)
        self._count += 1
        return None

    def step(self) -> list[Answered | Failure]:
        self._give_out()
        ended: list[Answered | Failure] = []
        for engine in self._with_news():
            try:
                ended += engine.hear()
            except EngineError as error:
                ended += self._lose(engine, str(error))
        self._count -= len(ended)
        return ended

    def drop(self, request: Request) -> None:
        self._count -= 1
        with suppress(ValueError):
            self._waiting.remove(request)
            return
        for engine in self._engines:
            engine.forget(request)

    def _give_out(self) -> None:
        """As many as there is room for, evenly, and to each engine at once: it may begin a batch with what it has."""
        given: dict[_EngineProcess, list[Request]] = {engine: [] for engine in self._engines}
        while self._waiting:
            engine = max(given, key=lambda engine: engine.room - len(given[engine]))
            if engine.room <= len(given[engine]):
                break
            given[engine].append(self._waiting.popleft())
        for engine, requests in given.items():
            engine.ask(requests)

    def _with_news(self) -> list[_EngineProcess]:
        poll = select.poll()
        for engine in self._engines:
            poll.register(engine.channel, select.POLLIN)
        ready = {number for number, _ in poll.poll(_LOOK_MS)}
        return [engine for engine in self._engines if engine.channel.fileno() in ready]

    def _lose(self, engine: _EngineProcess, reason: str) -> list[Failure]:
        """Its questions are given to the others, first of all. Returns those that have failed."""
        self._engines.remove(engine)
        engine.end()
        self._lost.append(reason)
        if not self._engines:
            raise EngineError(f"no engine is left: {'; '.join(self._lost)}; what was answered is stored")
        left = list(engine.asked.values())
        LOG.warning("%s; its questions go to the others: %d (engines left: %d)", reason, len(left), len(self._engines))
        self._ended_with.update(request.request_id for request in left)
        is_over = [self._ended_with[request.request_id] >= _MOST_ENDED for request in left]
        self._waiting.extendleft(request for request, over in zip(left, is_over, strict=True) if not over)
        why = f"{_MOST_ENDED} engines ended while they had it, at last {reason}"
        return [Failure(request, why) for request, over in zip(left, is_over, strict=True) if over]


class _EngineProcess:
    """An engine and what it is asked. room: how many more requests it said may come, 0 until it answers to the last."""

    def __init__(self, number: int, engine: LocalEngine, share: dict[str, str]) -> None:
        self.number, self.room = number, 0
        self.asked: dict[str, Request] = {}
        self._popen, self.channel = start_program(PROGRAM, **share)
        with suppress(ConnectionError):  # it has ended already; `open` says so
            self.channel.send(engine)

    def open(self) -> None:
        """Wait until it is. EngineError where it cannot be."""
        self.hear()

    def ask(self, requests: Sequence[Request]) -> None:
        if not requests:
            return
        self.asked |= {request.request_id: request for request in requests}
        self.room = 0
        with suppress(ConnectionError):  # it has ended; `hear` says so
            self.channel.send(tuple(pack_request(request, _OWN) for request in requests))

    def forget(self, request: Request) -> None:
        if self.asked.pop(request.request_id, None) is not None:
            with suppress(ConnectionError):
                self.channel.send(request.request_id)

    def hear(self) -> list[Answered | Failure]:
        """What ended. EngineError where the engine has."""
        try:
            news, _ = self.channel.receive()
        except EOFError as error:
            code = self._popen.wait()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            raise EngineError(f"engine {self.number} ended with {how}") from error
        assert isinstance(news, News)
        if news.problem:
            raise EngineError(f"engine {self.number}: {news.problem}")
        self.room = news.room
        ended = [(self.asked.pop(name), said) for name, said in news.ended if name in self.asked]
        return [Failure(r, said) if isinstance(said, str) else Answered(r, said) for r, said in ended]

    def end(self) -> None:
        self._popen.kill()
        self._popen.wait()
        self.channel.close()
