"""Ctrl-C: one line that says what was stopped and how it goes on, and exit code 130."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from mmrl.training.signals import ToldInterrupt

EXIT_INTERRUPTED = 130
_AGAIN = "give the same command again"
# What a command leaves behind, where it is more than nothing.
_GOES_ON = {
    "preprocess": "what it stored is kept, the same command goes on from there",
    "train": f"no training step was under way and checkpoints are as they were; {_AGAIN}",
    "serve-rollouts": f"trainings go on with their other servers; {_AGAIN}",
}


@contextmanager
def told_of_interrupt(arguments: Sequence[str]) -> Iterator[None]:
    """Within the block Ctrl-C ends by SystemExit, after the line, unless who was interrupted has said it already.

    Libraries that import parts of themselves late take Ctrl-C for a part that is missing, and typer makes an exit code
    of it: whatever comes out, the exit code is 130.
    """
    with _noted_interrupt() as was_interrupted:
        try:
            yield
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            interrupt = _interrupt_behind(error)
            if interrupt is None and (isinstance(error, SystemExit) or not was_interrupted()):
                raise
            line = str(interrupt) if isinstance(interrupt, ToldInterrupt) else interrupted_line(arguments)
            if line and os.environ.get("RANK", "0") == "0":  # of several processes the first one tells
                print(line, file=sys.stderr)
            sys.exit(EXIT_INTERRUPTED)


def interrupted_line(arguments: Sequence[str]) -> str:
    """What is said of an interrupted command line.

    >>> interrupted_line(["check", "my.yaml"])
    'interrupted: mmrl check was stopped; give the same command again'
    """
    command = next((word for word in arguments if not word.startswith("-")), "")
    return f"interrupted: {f'mmrl {command}'.strip()} was stopped; {_GOES_ON.get(command, _AGAIN)}"


def _interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """The Ctrl-C that an exception is or comes from."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


@contextmanager
def _noted_interrupt() -> Iterator[Callable[[], bool]]:
    """Ctrl-C raises KeyboardInterrupt as ever; what is yielded tells whether it did."""
    noted: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
