"""The two replies of a preference row, whichever tool wrote it. Pure.

    TRL            chosen and rejected: text, or a list of messages, perhaps with the prompt in front
    LLaMA-Factory  chosen and rejected: one message {from, value}
    ms-swift       the messages end with the chosen reply; rejected_response is text, rejected_messages a conversation

A row without a column `chosen` has its demonstration as the chosen reply, so a card may read a conversation that holds
the prompt too: `card: {preset: trl, columns: {prompt: chosen}}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import DataError, type_words

CHOSEN = ("chosen", "demonstration")
REJECTED = ("rejected", "rejected_response", "rejected_messages")
_ASSISTANT = ("assistant", "gpt", "model")


def preference_pair(sample: Sample) -> tuple[str, str]:
    """The chosen and the rejected reply. DataError, naming the sample, where one is missing or they are equal."""
    chosen, rejected = _reply(sample, CHOSEN), _reply(sample, REJECTED)
    if chosen == rejected:
        raise DataError(f"{sample.where}: the chosen and the rejected reply are equal; a pair needs two different ones")
    return chosen, rejected


def pair_problem(samples: Sequence[Sample]) -> str | None:
    """What is wrong with the first of the rows as a pair; None if nothing is. A card that does not fit fails there."""
    try:
        for sample in samples[:1]:
            preference_pair(sample)
    except DataError as error:
        return str(error)
    return None


def _reply(sample: Sample, columns: tuple[str, ...]) -> str:
    for column in columns:
        value = sample.columns.get(column)
        if value is not None:
            return reply_text(value, where=f"{sample.where}: column {column!r}")
    names, present = " or ".join(map(repr, columns)), ", ".join(sample.columns) or "none"
    raise DataError(f"{sample.where}: a row of a dpo stage needs a column {names}; other columns: {present}")


def reply_text(value: Any, *, where: str) -> str:
    """The text of a reply: of a string, a message, or the last message of a list, which is the assistant's.

    >>> reply_text([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}], where="row 1")
    'Hello'
    """
    if isinstance(value, list) and value:
        value = value[-1]
    if isinstance(value, Mapping):
        role = value.get("role", value.get("from"))
        if role not in _ASSISTANT:
            raise DataError(f"{where} ends with a message of {role!r}; a reply is one of 'assistant'")
        value = value.get("content", value.get("value"))
    if isinstance(value, list):
        value = _joined(value, where=where)
    if not isinstance(value, str):
        raise DataError(f"{where} must hold a text or messages, not {type_words(value)}")
    return value


def _joined(parts: list[Any], *, where: str) -> str:
    """The text of a content that is a list of parts."""
    for part in parts:
        if not isinstance(part, Mapping) or not isinstance(part.get("text"), str):
            raise DataError(f"{where}: a reply may hold parts of text only, not {part!r:.60}")
    return "".join(part["text"] for part in parts)
