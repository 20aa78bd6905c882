"""The thread in which a server's engine lives: it decodes what is on its way, admits what comes, takes weights.

vLLM is used by one thread only. The handlers of requests talk to it through futures.

While weights are taken: requests on their way end with the old ones, those that come meanwhile wait and get the new
ones. So no completion, and no group, is of two policies.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

import torch

from mmrl.errors import EngineError
from mmrl.rollout.server.wire import WeightsId
from mmrl.rollout.types import Group, Request
from mmrl.rollout.vllm_decode import Refused
from mmrl.rollout.vllm_engine import VllmEngine
from mmrl.rollout.vllm_types import TransferStep

LOG = logging.getLogger("mmrl.rollout")


class BehindError(EngineError):
    """The server has older weights than a request wants, or another trainer's, or none."""


class FailedError(EngineError):
    """The server's engine failed, or the server is ending: another server may answer."""


class WeightStream:
    """The tensors of one update, on their way from the handlers that receive them to the thread that loads them."""

    def __init__(self, weights: WeightsId, *, patience_s: float, by_transfer: bool = False) -> None:
        self.weights = weights
        self.by_transfer = by_transfer
        self.started: Future[None] = Future()
        self.done: Future[None] = Future()
        self._patience_s = patience_s
        self._parts: queue.Queue[tuple[Any, Future[None]] | None] = queue.Queue()
        self._problem: str | None = None

    @property
    def is_abandoned(self) -> bool:
        """Whether something went wrong already; the weights that are there may then be kept."""
        return self._problem is not None

    def put(self, part: Mapping[str, torch.Tensor] | TransferStep) -> Future[None]:
        """Hand over tensors, or a step of the transfer; done once it was taken and the next is wanted."""
        taken: Future[None] = Future()
        if self.done.done():
            taken.set_exception(EngineError("this update of the weights has ended"))
        else:
            self._parts.put((part, taken))
        return taken

    def end(self, problem: str | None = None) -> None:
        """No more tensors come; with a problem: because something went wrong."""
        self._problem = self._problem or problem
        self._parts.put(None)

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """All tensors. A trainer that falls silent ends them, and with it the update."""
        for part in self.parts():
            yield from part.items()

    def parts(self) -> Iterator[Any]:
        """What `put` was given, until the end."""
        while True:
            try:
                part = self._parts.get(timeout=self._patience_s)
            except queue.Empty:
                self._problem = f"the trainer sent no weights for {self._patience_s:g} s"
                return
            if part is None:
                return
            yield part[0]
            _resolve(part[1], None)

    def finish(self, error: EngineError | None) -> None:
        """Tell everybody who waits how the update ended."""
        if error is not None and self._problem is not None:
            error = EngineError(self._problem)
        while not self._parts.empty():
            part = self._parts.get_nowait()
            if part is not None:
                _resolve(part[1], error or EngineError("this update of the weights has ended"))
        for future in (self.started, self.done):
            _resolve(future, error)


@dataclass(frozen=True, slots=True, eq=False)
class _Ticket:
    """A request that was not added yet, and who waits for it."""

    request: Request
    weights: WeightsId
    future: Future[Group] = field(default_factory=Future)


class Worker:
    """Runs the engine until it is closed or the engine fails; `on_failure` is called then. answered: groups so far."""

    def __init__(self, engine: VllmEngine, *, on_failure: Callable[[str], None]) -> None:
        self.weights: WeightsId | None = None
        self.answered = 0
        self._engine = engine
        self._on_failure = on_failure
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._waiting: list[_Ticket] = []
        self._running: dict[Request, Future[Group]] = {}
        self._update: WeightStream | None = None
        self._loading: WeightStream | None = None
        self._problem: FailedError | None = None
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="rollout engine", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise FailedError where the engine has ended."""
        if self._problem is not None:
            raise self._problem

    @property
    def outstanding(self) -> int:
        """Requests that came and were not answered."""
        return len(self._waiting) + len(self._running)

    def submit(self, request: Request, weights: WeightsId) -> Future[Group]:
        """The group, once it is there. It fails with BehindError, or with EngineError for what cannot be served.

        Raises EngineError where the engine has ended.
        """
        ticket = _Ticket(request, weights)
        self._send(lambda: self._waiting.append(ticket))
        return ticket.future

    def drop(self, request: Request) -> None:
        """Nobody waits for this request any more."""
        with contextlib.suppress(EngineError):  # an engine that has ended has forgotten all requests
            self._send(lambda: self._drop(request))

    def update(self, stream: WeightStream) -> None:
        """Take these weights, as soon as what is on its way has ended."""
        self._send(lambda: self._begin(stream))

    def close(self) -> None:
        """End the thread after the step under way, and free the engine."""

        def stop() -> None:
            self._closing = True

        for stream in (self._update, self._loading):
            if stream is not None:
                stream.end("the server is ending")
        with contextlib.suppress(EngineError):
            self._send(stop)
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
            problem = FailedError("the server is ending")
        except EngineError as error:
            problem = FailedError(str(error))
        except Exception as error:  # a fault of ours; without its engine's thread a server must end, too
            LOG.exception("the thread of the server's engine failed")
            problem = FailedError(f"the server's engine failed: {type(error).__name__}: {error}")
        self._end(problem)
        if self._closing:
            self._engine.close()
        else:
            self._on_failure(str(problem))

    def _end(self, problem: FailedError) -> None:
        """Answer everybody who waits; who comes later is refused at once."""
        for future in self._running.values():
            _resolve(future, problem)
        self._running = {}
        with self._lock:
            self._problem = problem
        while not self._inbox.empty():
            self._inbox.get()()
        for ticket in self._waiting:
            _resolve(ticket.future, problem)
        self._waiting = []
        if self._update is not None:
            self._update.finish(problem)

    def _send(self, message: Callable[[], None]) -> None:
        with self._lock:
            self.check()
            self._inbox.put(message)

    def _turn(self) -> None:
        """Messages, then either a step or, when nothing is on its way, new weights."""
        is_idle = not self._running and self._update is None and not self._waiting
        while is_idle or not self._inbox.empty():
            self._inbox.get()()
            is_idle = False
        if self._update is None:
            self._admit()
        elif not self._running:
            self._load(self._update)
        if self._running:
            self._step()

    def _admit(self) -> None:
        while self._waiting:
            ticket = self._waiting[0]  # it stays until it is running: whatever fails, somebody answers it
            try:
                self._check_weights(ticket.weights)
                self._engine.add(ticket.request)
                self._running[ticket.request] = ticket.future
            except EngineError as error:
                _resolve(ticket.future, error)
            del self._waiting[0]

    def _check_weights(self, wanted: WeightsId) -> None:
        if self.weights is None:
            raise BehindError("the server has no weights yet")
        if self.weights.session != wanted.session:
            raise BehindError("the server has the weights of another trainer")
        if not self.weights.covers(wanted):
            raise BehindError(f"the server has weights {self.weights.number}, the request wants {wanted.number}")

    def _step(self) -> None:
        for result in self._engine.step():
            if isinstance(result, Refused):
                _resolve(self._running.pop(result.request), result.error)
            else:
                self.answered += 1
                _resolve(self._running.pop(result.request), result)

    def _drop(self, request: Request) -> None:
        self._waiting = [ticket for ticket in self._waiting if ticket.request is not request]
        if self._running.pop(request, None) is not None:
            self._engine.drop(request)

    def _begin(self, stream: WeightStream) -> None:
        """Of two updates the later one is meant, unless the earlier one may still come to its end."""
        if self._update is not None and not self._update.is_abandoned:
            stream.finish(EngineError("another update of the weights is under way"))
            return
        if self._update is not None:
            self._update.finish(EngineError("another update of the weights was begun"))
        self._update = stream

    def _load(self, stream: WeightStream) -> None:
        """New weights. Where they do not fit, the server has none until the next update."""
        self._update, self._loading = None, stream
        if stream.is_abandoned:
            stream.finish(EngineError("the update was given up before it began"))
            return
        self.weights = None
        _resolve(stream.started, None)
        error: EngineError | None = None
        try:
            version = stream.weights.policy_version
            if stream.by_transfer:
                self._engine.transfer_weights(stream.parts(), version)
            else:
                self._engine.sync_weights(stream.tensors(), version)
            self.weights = stream.weights
        except EngineError as raised:
            error = FailedError(str(raised)) if self._engine.is_broken else raised
        stream.finish(error)
        if isinstance(error, FailedError):
            raise error


def _resolve(future: Future[Any], outcome: Any) -> None:
    """Give a future its outcome, an exception or a value, unless it has one already or nobody waits any more."""
    with contextlib.suppress(InvalidStateError):
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
