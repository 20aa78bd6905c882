"""What became of the questions to judges while a reward scored: judges report it, no reward has to.

with judging() as log:
    values = score_batch(completions, samples, endpoint=endpoint)
log.calls  # JudgeCalls(judged=8, remembered=3, failed=1, unread=0)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import astuple, dataclass


@dataclass(frozen=True, slots=True)
class JudgeCalls:
    """Questions to judges. judged: those with a verdict, of which `remembered` needed no request.

    failed: the judge did not answer. unread: its answer was no verdict.

    >>> JudgeCalls(judged=2, remembered=1) + JudgeCalls(judged=1, failed=3)
    JudgeCalls(judged=3, remembered=1, failed=3, unread=0)
    """

    judged: int = 0
    remembered: int = 0
    failed: int = 0
    unread: int = 0

    def __add__(self, other: JudgeCalls) -> JudgeCalls:
        return JudgeCalls(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


NONE = JudgeCalls()


class Judging:
    """calls: of all that was asked since the log was opened."""

    def __init__(self) -> None:
        self.calls = NONE


_LOG: ContextVar[Judging | None] = ContextVar("judging", default=None)


@contextlib.contextmanager
def judging() -> Iterator[Judging]:
    """Collect what judges report in this thread."""
    log = Judging()
    token = _LOG.set(log)
    try:
        yield log
    finally:
        _LOG.reset(token)


def report(calls: JudgeCalls) -> None:
    if (log := _LOG.get()) is not None:
        log.calls += calls
