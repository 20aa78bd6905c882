"""Requests on their way through an engine, joined by others as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from mmrl.errors import EngineError
from mmrl.rollout.types import Engine, Group, Request


@dataclass(frozen=True, slots=True, eq=False)
class Failure:
    """A request that the engine could not serve; others go on."""

    request: Request
    reason: str


class Flight(Protocol):
    """room: how many more requests may join now. step: what ended, after some work; waits for nothing else."""

    @property
    def room(self) -> int: ...

    @property
    def is_busy(self) -> bool: ...

    def add(self, request: Request) -> Failure | None: ...

    def step(self) -> list[Group | Failure]: ...


class BatchFlight:
    """Over `Engine.generate`: a batch is decoded to its end before the next one starts."""

    def __init__(self, engine: Engine, *, size: int) -> None:
        self._engine, self._size = engine, size
        self._waiting: list[Request] = []
        self._running: Iterator[Group] | None = None

    @property
    def room(self) -> int:
        return 0 if self._running is not None else self._size - len(self._waiting)

    @property
    def is_busy(self) -> bool:
        return self._running is not None or bool(self._waiting)

    def add(self, request: Request) -> Failure | None:
        try:
            self._engine.generate([request])  # a request that cannot be served is refused before anything is decoded
        except EngineError as error:
            return Failure(request, str(error))
        self._waiting.append(request)
        return None

    def step(self) -> list[Group | Failure]:
        if self._running is None:
            self._running, self._waiting = iter(self._engine.generate(self._waiting)), []
        group = next(self._running, None)
        if group is None:
            self._running = None
            return []
        return [group]


class JoiningFlight:
    """Over vLLM: requests join the running batch at every step."""

    def __init__(self, engine: Any, *, size: int) -> None:
        self._engine, self._size, self._count = engine, size, 0

    @property
    def room(self) -> int:
        return self._size - self._count

    @property
    def is_busy(self) -> bool:
        return self._count > 0

    def add(self, request: Request) -> Failure | None:
        try:
            self._engine.add(request)
        except EngineError as error:
            return Failure(request, str(error))
        self._count += 1
        return None

    def step(self) -> list[Group | Failure]:
        ended = self._engine.step()
        self._count -= len(ended)
        return [e if isinstance(e, Group) else Failure(e.request, str(e.error)) for e in ended]
