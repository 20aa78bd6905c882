"""SIGTERM asks for a checkpoint and an orderly end; the step under way is finished first. Ctrl-C ends at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_TERMINATED = 75  # sysexits' EX_TEMPFAIL: stopped on request, a checkpoint was written, run again with --resume


class ToldInterrupt(KeyboardInterrupt):
    """Ctrl-C in a run. The message says what is lost and how to go on; it is empty where the user was told already."""


class StopRequest:
    """Truthy once SIGTERM has arrived."""

    def __init__(self) -> None:
        self._asked = False

    def ask(self, *_: object) -> None:
        self._asked = True

    def __bool__(self) -> bool:
        return self._asked


@contextmanager
def stop_on_sigterm() -> Iterator[StopRequest]:
    """Within the block SIGTERM only sets the flag; afterwards the former handler is back."""
    request = StopRequest()
    former = signal.signal(signal.SIGTERM, request.ask)
    try:
        yield request
    finally:
        signal.signal(signal.SIGTERM, former)
