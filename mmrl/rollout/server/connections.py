"""Connections of a rollout server that ask for nothing are closed, so that whoever lacks the token cannot fill it.

uvicorn ends connections that are idle after an answer, but waits for ever for a first head, for the rest of a slow one,
and for the rest of a body that was refused. On h11 and not httptools, which keeps a head of any length.
"""

from __future__ import annotations

import asyncio
import resource

from uvicorn.protocols.http.h11_impl import H11Protocol

# From connecting to the end of the first head, and from an answer to the end of the body that it did not wait for.
HEAD_S = 10.0


def most_connections() -> int:
    """Half of the files that this process may open: vLLM and the files of weights need the others."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


class GuardedConnection(H11Protocol):
    """uvicorn's, with a deadline whenever no request is being answered, and a limit on how many there are.

    At the limit the connection that has waited longest without asking is closed for the new one; if all are being
    answered, the new one is.
    """

    head_s = HEAD_S
    most = most_connections()
    _deadline: asyncio.TimerHandle | None = None
    _waits_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(self.head_s)
        if len(self.connections) > self.most:
            waiting = [other for other in self.connections if isinstance(other, GuardedConnection) and other._deadline]
            min(waiting, key=lambda other: other._waits_since).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_idle:
            self._forget()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_idle and not self.transport.is_closing():
            self._wait(self.head_s if self.cycle.more_body else self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._forget()
        self._waits_since = self.loop.time()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
