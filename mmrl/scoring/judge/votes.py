"""What judge rewards share: the part of a completion that is judged, and the mean of several verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mmrl.errors import JudgeError, RewardError
from mmrl.scoring.judge.endpoint import ChatClient
from mmrl.scoring.judge.prompts import Asked
from mmrl.scoring.parse import extract_prediction

T = TypeVar("T")


def said(completion: str) -> str:
    """What a completion says after its thought; nothing where the thought never ends."""
    return extract_prediction(completion, answer="plain") or ""


def ask_all(
    judge: ChatClient, asked: Sequence[Sequence[Asked] | RewardError], read: Callable[[Any], float]
) -> list[float | JudgeError | RewardError]:
    """The mean verdict of each list of questions, all asked together; an error where any has no verdict."""
    return [found if isinstance(found, RewardError) else _mean(found) for found in ask_each(judge, asked, read)]


def ask_each(
    judge: ChatClient, asked: Sequence[Sequence[Asked] | RewardError], read: Callable[[Any], T]
) -> list[list[T | JudgeError] | RewardError]:
    """`ask_lists` of those that are lists; errors stay where they are."""
    found = iter(ask_lists(judge, [several for several in asked if not isinstance(several, RewardError)], read))
    return [several if isinstance(several, RewardError) else next(found) for several in asked]


def ask_lists(
    judge: ChatClient, asked: Sequence[Sequence[Asked]], read: Callable[[Any], T]
) -> list[list[T | JudgeError]]:
    """The verdicts of each list of questions, all asked together."""
    flat = [one for several in asked for one in several]
    mark_of = {one.question: one for one in flat}
    found = iter(judge.ask([one.question for one in flat], lambda q, answer: read(mark_of[q].verdict(answer))))
    return [[next(found) for _ in several] for several in asked]


def _mean(verdicts: Sequence[float | JudgeError]) -> float | JudgeError:
    known: list[float] = []
    for verdict in verdicts:
        if isinstance(verdict, JudgeError):
            return verdict
        known.append(verdict)
    return sum(known) / len(known)
