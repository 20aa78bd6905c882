"""Sources hashed a little ahead of the decoders, by threads: hashing waits for the disk and releases the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from mmrl.data.cache import Request
from mmrl.data.opening import OpenJob
from mmrl.errors import MediaError

_THREADS = 4
_AHEAD = 32
Name = TypeVar("Name")


def hashed_ahead(
    request: Callable[[OpenJob], Request], jobs: Iterable[tuple[Name, OpenJob]]
) -> Iterator[tuple[Name, Request | MediaError]]:
    """Requests in order, their sources hashed by threads a little ahead of the one that is handed out."""
    pending: deque[tuple[Name, Future[Request]]] = deque()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="hash") as pool:
        for medium, job in jobs:
            pending.append((medium, pool.submit(request, job)))
            if len(pending) > _AHEAD:
                yield _settled(*pending.popleft())
        while pending:
            yield _settled(*pending.popleft())


def _settled(name: Name, future: Future[Request]) -> tuple[Name, Request | MediaError]:
    try:
        return name, future.result()
    except MediaError as error:
        return name, error
