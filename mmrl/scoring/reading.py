"""Which completions held nothing that their reward could read: the parse functions report it, no reward has to.

    with reading() as log:
        value = score("I cannot see it.", sample)  # a choice
    log.is_unread("I cannot see it.")  # True

A completion is unread when the asked form of an answer is missing from it, or when every parser that was given its
answer's text found no value there. The same text read as the row's answer counts as well, which changes nothing: equal
texts hold equal values. A reward that reads by other means than these parsers reports nothing.
"""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Reading:
    """What was taken from completions, and whether a value was found in it."""

    def __init__(self) -> None:
        self.answers: dict[str, set[str]] = defaultdict(set)
        self.found: dict[str, bool] = {}

    def is_unread(self, completion: str) -> bool:
        answers = self.answers.get(completion, ())
        return bool(answers) and not any(text and self.found.get(text, True) for text in answers)


_LOG: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextlib.contextmanager
def reading() -> Iterator[Reading]:
    """Collect what parse functions report in this thread."""
    token = _LOG.set(Reading())
    try:
        log = _LOG.get()
        assert log is not None
        yield log
    finally:
        _LOG.reset(token)


def reports_answer(
    extract: Callable[Concatenate[str, P], str | None],
) -> Callable[Concatenate[str, P], str | None]:
    """For what finds the text of an answer in a completion."""

    @functools.wraps(extract)
    def reporting(completion: str, *args: P.args, **options: P.kwargs) -> str | None:
        text = extract(completion, *args, **options)
        if (log := _LOG.get()) is not None:
            log.answers[completion].add(text or "")
        return text

    return reporting


def reports_value(parse: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    """For what finds a value in the text of an answer, or None."""

    @functools.wraps(parse)
    def reporting(text: str, *args: P.args, **options: P.kwargs) -> T:
        value = parse(text, *args, **options)
        if (log := _LOG.get()) is not None:
            log.found[text] = log.found.get(text, False) or value is not None
        return value

    return reporting
