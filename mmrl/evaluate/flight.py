"""Requests on their way through an engine, joined by others as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from mmrl.data.sample import Sample
from mmrl.errors import EngineError
from mmrl.evaluate.records import Reply
from mmrl.rollout.types import Engine, Group, Request


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """All answers to a request."""

    request: Request
    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """A request that the engine could not serve; others go on."""

    request: Request
    reason: str


class Flight(Protocol):
    """shows_thought: whether an answer holds all of the thought that its prompt begins; a server may keep it back.
    room: how many more requests may join now. add: sample: what the request asks, for engines that render it
    themselves. step: what ended, after some work; waits for nothing else. drop: forget a request, if the engine can.
    """

    @property
    def shows_thought(self) -> bool: ...

    @property
    def room(self) -> int: ...

    @property
    def is_busy(self) -> bool: ...

    def add(self, request: Request, sample: Sample) -> Failure | None: ...

    def step(self) -> list[Answered | Failure]: ...

    def drop(self, request: Request) -> None: ...


class SizedFlight:
    """What flights of at most `size` requests share; `_count` is how many are under way."""

    def __init__(self, size: int) -> None:
        self._size, self._count = size, 0

    @property
    def shows_thought(self) -> bool:
        return True

    @property
    def room(self) -> int:
        return self._size - self._count

    @property
    def is_busy(self) -> bool:
        return self._count > 0


class BatchFlight(SizedFlight):
    """Over `Engine.generate`: a batch is decoded to its end before the next one starts. A request that is dropped is
    decoded with the others, unless none of them is left.
    """

    def __init__(self, engine: Engine, *, size: int) -> None:
        super().__init__(size)
        self._engine = engine
        self._waiting: list[Request] = []
        self._running: Iterator[Group] | None = None
        self._left: set[str] = set()

    @property
    def room(self) -> int:
        return 0 if self._running is not None else super().room

    def add(self, request: Request, sample: Sample | None = None) -> Failure | None:
        try:
            self._engine.generate([request])  # a request that cannot be served is refused before anything is decoded
        except EngineError as error:
            return Failure(request, str(error))
        self._waiting.append(request)
        self._count += 1
        return None

    def step(self) -> list[Answered | Failure]:
        if self._running is None:
            self._left = {request.request_id for request in self._waiting}
            self._running, self._waiting = iter(self._engine.generate(self._waiting)), []
        group = next(self._running)
        if group.request.request_id not in self._left:
            return []
        self._end(group.request)
        return [_answered(group)]

    def drop(self, request: Request) -> None:
        if request in self._waiting:
            self._waiting.remove(request)
            self._count -= 1
        elif request.request_id in self._left:
            self._end(request)

    def _end(self, request: Request) -> None:
        self._left.remove(request.request_id)
        self._count -= 1
        if not self._left:
            self._running = None


class JoiningFlight(SizedFlight):
    """Over vLLM: requests join the running batch at every step."""

    def __init__(self, engine: Any, *, size: int) -> None:
        super().__init__(size)
        self._engine = engine

    def add(self, request: Request, sample: Sample | None = None) -> Failure | None:
        try:
            self._engine.add(request)
        except EngineError as error:
            return Failure(request, str(error))
        self._count += 1
        return None

    def step(self) -> list[Answered | Failure]:
        ended = self._engine.step()
        self._count -= len(ended)
        return [_answered(e) if isinstance(e, Group) else Failure(e.request, str(e.error)) for e in ended]

    def drop(self, request: Request) -> None:
        self._engine.drop(request)
        self._count -= 1


def _answered(group: Group) -> Answered:
    replies = map(Reply.of, group.completions)
    return Answered(group.request, tuple(replies))
