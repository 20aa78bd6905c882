"""The conversation of a row, whatever a tool calls its turns: prompt, history, system turn and reply. Pure.

A prompt is text or a list of messages; a message is {role, content} or {from, value}; a content is text or a list of
parts ({type: text}, {type: image}, ...). What comes out is turns of our three roles, cut at their placeholders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mmrl.data.placeholders import PATH, Piece, Slot, split_text
from mmrl.errors import DataError, type_words

ROLES = ("system", "user", "assistant")
_TEXT_PARTS = ("text", "input_text", "output_text")
_MEDIA_PARTS = {"image": "image", "image_url": "image", "input_image": "image", "video": "video", "video_url": "video"}
_SOURCES = ("image", "video", "image_url", "video_url", "url", "path", "base64")


class Turn(NamedTuple):
    """One message as the row has it. role: one of ROLES; content: text, or a list of parts."""

    role: str
    content: str | list[Any]


class Tokens:
    """The placeholders of a card, string -> kind: of media, which only a user's text may name, and of other values.

    by_role: what the text of a role is searched for. in_parts: the same for a text in a list of parts. counted: kinds
    that must have as many placeholders as values; a placeholder with its own path needs no value.
    """

    def __init__(self, media: Mapping[str, str], values: Mapping[str, str]) -> None:
        self.by_role = {"user": {**media, **values}, "assistant": values, "system": {}}
        self.in_parts = {"user": values, "assistant": values, "system": {}}
        self.counted = frozenset(kind for token, kind in self.by_role["user"].items() if PATH not in token)


def read_turns(
    prompt: Any, *, extra: str | None, history: Any, system: str | None, roles: Mapping[str, str]
) -> list[Turn]:
    """The row's turns in order; the last one may be the assistant's.

    extra: text below a text prompt (an instruction's input). history: earlier turns, as [question, reply] pairs or as
    messages. system: text of a first system turn. roles: a tool's role -> ours. DataError for anything else.

    >>> read_turns("And now?", extra=None, history=[["Hi", "Hello"]], system=None, roles={})[1]
    Turn(role='assistant', content='Hello')
    """
    turns = [*_history(history, roles), *_prompt(prompt, extra, roles)]
    if system is not None:
        if turns[0].role == "system":
            raise DataError("a system column and a system message in the prompt; keep one")
        turns.insert(0, Turn("system", system))
    return turns


def split_reply(turns: Sequence[Turn]) -> tuple[list[Turn], Turn | None]:
    """The turns up to the user's last one, and the assistant's turn behind it. DataError unless a user speaks last."""
    *rest, last = turns
    prompt, reply = (rest, last) if last.role == "assistant" else ([*turns], None)
    if not prompt or prompt[-1].role != "user":
        ends = f"ends with a message of {prompt[-1].role!r}" if prompt else "has no message before the assistant's"
        raise DataError(f"the prompt {ends}; it must end with one of 'user'")
    if isinstance(prompt[-1].content, str) and not prompt[-1].content.strip():
        raise DataError("the prompt is empty")
    return prompt, reply


def is_messages(value: Any) -> bool:
    """Whether a value is a list of messages, and not some other list."""
    return (
        isinstance(value, list) and bool(value) and all(isinstance(v, dict) and {"role", "from"} & {*v} for v in value)
    )


def single_reply(value: Any, roles: Mapping[str, str]) -> Turn:
    """A completion that is written as messages: one of the assistant."""
    turns = [_turn(message, roles) for message in value]
    if [turn.role for turn in turns] != ["assistant"]:
        raise DataError(f"a demonstration must be one message of 'assistant', not of {[turn.role for turn in turns]}")
    return turns[0]


def cut(turn: Turn, tokens: Tokens) -> list[Piece]:
    """The turn's content, cut at its placeholders and parts. In a list of parts media are parts, and text is text."""
    if isinstance(turn.content, str):
        return split_text(turn.content, tokens.by_role[turn.role])
    pieces: list[Piece] = []
    for part in turn.content:
        slot = _slot(part)
        if slot is None:
            pieces += split_text(part["text"], tokens.in_parts[turn.role])
        elif turn.role == "user":
            pieces.append(slot)
        else:
            raise DataError(f"a message of {turn.role!r} holds media ({slot.kind}); only those of 'user' may")
    return pieces


def _prompt(prompt: Any, extra: str | None, roles: Mapping[str, str]) -> list[Turn]:
    if isinstance(prompt, str):
        return [Turn("user", "\n".join(text for text in (prompt, extra) if text))]
    if not isinstance(prompt, list) or not prompt:
        raise DataError(f"the prompt must be a string or a list of messages, not {type_words(prompt)} {prompt!r:.60}")
    if extra is not None:
        raise DataError("a list of messages and an input column; the input belongs to a prompt that is text")
    return [_turn(message, roles) for message in prompt]


def _history(history: Any, roles: Mapping[str, str]) -> list[Turn]:
    if not history:
        return []
    if is_messages(history):
        return [_turn(message, roles) for message in history]
    turns: list[Turn] = []
    for pair in history if isinstance(history, list) else [history]:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise DataError(f"the history must be a list of [question, reply] pairs or of messages, not {pair!r:.80}")
        turns += [Turn("user", pair[0]), Turn("assistant", pair[1])]
    return turns


def _turn(message: Any, roles: Mapping[str, str]) -> Turn:
    keys = ("from", "value") if isinstance(message, dict) and "from" in message else ("role", "content")
    written, content = (message.get(key) for key in keys) if isinstance(message, dict) else (None, None)
    role = roles.get(written, written) if isinstance(written, str) else None
    if role not in ROLES or not isinstance(content, str | list):
        known = "|".join(dict.fromkeys((*ROLES, *roles)))
        raise DataError(
            f"a message must be {{{keys[0]}: {known}, {keys[1]}: text or parts}}, not {message!r:.120}; "
            "another name of a role goes into the card's `roles`"
        )
    for key in ("tool_calls", "function_call"):
        if message.get(key):
            raise DataError(f"a message of {role!r} holds {key}, which cannot be shown to the model")
    return Turn(role, content)


def _slot(part: Any) -> Slot | None:
    """The medium of a part; None for a part of text."""
    kind = _kind(part) if isinstance(part, dict) else None
    if kind in _TEXT_PARTS and isinstance(part.get("text"), str):
        return None
    if kind not in _MEDIA_PARTS:
        raise DataError(
            f"a part must be {{type: text, text: ...}} or of type {', '.join(_MEDIA_PARTS)}, not {part!r:.120}"
        )
    medium = _MEDIA_PARTS[kind]
    # Arrow gives every part the keys of all parts, null where they do not apply.
    given = {key: value for key, value in part.items() if value is not None and key not in ("type", "detail")}
    sources = [key for key in given if key in _SOURCES]
    if len(sources) > 1:
        raise DataError(f"a part of type {kind} names its medium twice, by {' and '.join(sources)}")
    if not sources and not given:
        return Slot(medium)
    if not sources:
        raise DataError(f"a part of type {kind} says {', '.join(given)} but names no medium")
    source = given.pop(sources[0])
    if isinstance(source, dict) and "url" in source:  # OpenAI's {image_url: {url: ...}}
        source = source["url"]
    # A mapping is one medium, where a list would be many.
    return Slot(medium, source if isinstance(source, str) and not given else {medium: source, **given})


def _kind(part: Mapping[str, Any]) -> str | None:
    """The part's type; where it says none, what it holds ({image: ...})."""
    return part.get("type") or next((key for key in ("text", *_MEDIA_PARTS) if part.get(key) is not None), None)
