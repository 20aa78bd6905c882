"""From a conversation to token ids, once per sample: media expanded, placed and counted, nothing searched, nothing cut.

The chat template never sees text from outside. It is applied with a mark in place of every text part, and the string
it returns is split at the marks: the fragments between them may hold special tokens, the texts may not. Texts and
fragments that touch are tokenised together. So the ids of ordinary text equal those of the family's processor, blanks
and line breaks at the seams included, and `<|image_pad|>` or `<image>` typed by somebody stays the letters it is.

Media are numbered over the whole conversation: `MediaPart(i)` is the place of medium i.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jinja2 import TemplateError

from mmrl.data.budget import SourceSize, largest_max_pixels
from mmrl.data.positions import prompt_positions, text_positions
from mmrl.data.rendered import MediaEntry, Placeholder, RenderedPrompt
from mmrl.data.sample import (
    GeometryKind,
    GeometryPart,
    MediaKind,
    MediaPart,
    Message,
    Part,
    Sample,
    SpacePart,
    TextPart,
)
from mmrl.errors import DataError, PromptTooLongError
from mmrl.models.families import FamilyProcessor
from mmrl.scoring.geometry import answer_medium, describe_space, format_geometry, place

ROLES = ("system", "user", "assistant")
# Private-use characters: no template holds them, and texts are not yet in the string when it is split.
_MARK = "\ue000{}\ue001"
_MARKS = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class _Text:
    """Letters; texts that touch are tokenised together."""

    text: str


@dataclass(frozen=True, slots=True)
class _Token:
    """One special token of the template."""

    token_id: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """The template's sign that a medium of this kind belongs here."""

    spelling: str
    kind: MediaKind


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of placeholders for tokens `first .. first + length` of a medium."""

    token_id: int
    medium: int
    length: int
    first: int = 0


_Piece = _Text | _Token | _Mark | _Run


@dataclass(frozen=True, slots=True)
class _Conversation:
    """Messages with the media they place. `where` names the sample in errors."""

    messages: Sequence[Message]
    media: Sequence[MediaEntry]
    processor: FamilyProcessor
    where: str

    @property
    def parts(self) -> Iterator[Part]:
        return (part for message in self.messages for part in message.parts)

    @property
    def placed(self) -> list[int]:
        """The media in the order they appear."""
        return [part.medium for part in self.parts if isinstance(part, MediaPart)]


def render(
    sample: Sample, media: Sequence[MediaEntry], processor: FamilyProcessor, *, max_prompt_tokens: int | None = None
) -> RenderedPrompt:
    """The sample's conversation as the model reads it, up to where the reply begins. `media[i]` is sample.media[i].

    Raises DataError for a conversation that does not place every medium, PromptTooLongError above max_prompt_tokens.

    A photo of 6 tokens and the text "Hi", Qwen2.5-VL without system turn: `<|im_start|>user\\n<|vision_start|>`, 6
    times `<|image_pad|>`, `<|vision_end|>Hi<|im_end|>\\n<|im_start|>assistant\\n`.
    """
    conversation = _Conversation(sample.messages, media, processor, sample.where)
    _check_placed(conversation, first_new=0)
    prompt = _rendered(sample.sample_id, _template_pieces(conversation), conversation, start=0)
    if max_prompt_tokens is not None:
        check_length(prompt, max_prompt_tokens, processor=processor, where=sample.where)
    return prompt


def spoken(
    sample: Sample, media: Sequence[MediaEntry], processor: FamilyProcessor
) -> list[tuple[str, list[str | int]]]:
    """The conversation as (role, parts) for a server that renders it by itself: words, and media by their number.

    Raises DataError as `render` does.
    """
    conversation = _Conversation(sample.messages, media, processor, sample.where)
    _check_placed(conversation, first_new=0)
    return [
        (
            _role(message, conversation),
            [p.medium if isinstance(p, MediaPart) else _part_text(p, conversation) for p in message.parts],
        )
        for message in sample.messages
    ]


def extend(
    prompt: RenderedPrompt,
    completion_ids: Sequence[int],
    messages: Sequence[Message],
    media: Sequence[MediaEntry],
    processor: FamilyProcessor,
) -> RenderedPrompt:
    """The prompt, the completion and the next messages, up to where the next reply begins.

    Earlier ids and placeholders are kept as they are: what was sampled is never tokenised again. The end of the turn is
    added where the completion lacks it. `media` are the new ones; they are numbered after those of the prompt, so in a
    conversation of one picture `MediaPart(1)` is the first new one, and `MediaPart(0)` shows the old one again.

    Ids `.. assistant\\n`, a completion `yes<|im_end|>` and the message "Sure?" make
    `.. assistant\\nyes<|im_end|>\\n<|im_start|>user\\nSure?<|im_end|>\\n<|im_start|>assistant\\n`.
    """
    everything = (*prompt.media, *media)
    # The template is asked for a whole conversation; only what follows its first reply is used.
    opening = (Message("user", (TextPart(""),)), Message("assistant", (TextPart(""),)))
    conversation = _Conversation((*opening, *messages), everything, processor, f"id={prompt.sample_id}")
    _check_placed(conversation, first_new=len(prompt.media))
    pieces = _template_pieces(conversation, after_text=1)
    if completion_ids and pieces[:1] == [_Token(completion_ids[-1])]:
        pieces = pieces[1:]
    return _append(with_completion(prompt, completion_ids), pieces, conversation)


def check_length(prompt: RenderedPrompt, max_prompt_tokens: int, *, processor: FamilyProcessor, where: str) -> None:
    """Raise PromptTooLongError where the prompt is longer: tokens per medium, and the pixel budget that would fit."""
    total, vision = len(prompt.prompt_ids_T), prompt.num_vision_tokens
    if total <= max_prompt_tokens:
        return
    per_medium = " + ".join(str(entry.num_tokens) for entry in _occurrences(prompt))
    pixels = fitting_max_pixels(prompt, max_prompt_tokens, processor=processor)
    remedy = f"max_pixels of at most {pixels} would fit" if pixels else "no pixel budget makes it fit"
    raise PromptTooLongError(
        f"{where}: the prompt has {total} tokens, data.max_prompt_tokens is {max_prompt_tokens}: {total - vision} of"
        f" text, {vision} of media ({per_medium or 'none'}); {remedy}. Lower the budget's max_pixels (or max_frames),"
        f" raise data.max_prompt_tokens, or set data.too_long to skip or shrink"
    )


def fitting_max_pixels(prompt: RenderedPrompt, max_prompt_tokens: int, *, processor: FamilyProcessor) -> int | None:
    """The largest max_pixels, common to its media, with which the prompt has at most max_prompt_tokens; None: none."""
    num_text = len(prompt.prompt_ids_T) - prompt.num_vision_tokens
    sizes = [
        SourceSize(*entry.source_size, len(entry.frames_F3HW) if entry.kind == "video" else None, entry.num_tokens)
        for entry in _occurrences(prompt)
    ]
    return largest_max_pixels(sizes, max_prompt_tokens - num_text, processor.geometry)


def _occurrences(prompt: RenderedPrompt) -> list[MediaEntry]:
    """Media in the order of the prompt; one shown twice is there twice."""
    return [prompt.media[run.medium] for run in prompt.placeholders if run.first == 0]


def _check_placed(conversation: _Conversation, *, first_new: int) -> None:
    """Every new medium has its place, and no place is without a medium."""
    known = range(len(conversation.media))
    placed = conversation.placed
    missing = sorted(set(known[first_new:]).difference(placed))
    unknown = sorted(set(placed).difference(known))
    if missing or unknown:
        raise DataError(
            f"{conversation.where}: the messages place media {placed}, the sample has {len(known)}"
            f" (never placed: {missing}; unknown: {unknown})"
        )


def _template_pieces(conversation: _Conversation, *, after_text: int | None = None) -> list[_Piece]:
    """The conversation in the family's form, media unexpanded; only what follows the given text part, if asked."""
    turns = tuple((_role(message, conversation), _form(message, conversation)) for message in conversation.messages)
    texts = [_part_text(part, conversation) for part in conversation.parts if not isinstance(part, MediaPart)]
    begin = 0 if after_text is None else 2 * after_text + 2
    try:
        filled = _filled(conversation.processor, turns, begin)
    except TemplateError as error:
        raise DataError(f"{conversation.where}: the chat template refuses this conversation: {error}") from error
    except _TextsMoved as error:
        raise DataError(f"{conversation.where}: {error}") from error
    return [_Text(texts[piece]) if isinstance(piece, int) else piece for piece in filled]


class _TextsMoved(Exception):
    """A template wrote texts in another order, or not all of them."""


@functools.lru_cache(256)
def _filled(
    processor: FamilyProcessor, turns: tuple[tuple[str, tuple[str, ...]], ...], begin: int
) -> tuple[_Piece | int, ...]:
    """What the chat template writes, from fragment `begin` on; a number is the place of a text.

    turns: role and kinds of the parts. The template sees nothing else, so conversations alike in this are filled once.
    """
    numbers = itertools.count()
    conversation = [{"role": role, "content": [_content(kind, numbers) for kind in kinds]} for role, kinds in turns]
    # re.split with a group: fragment, number of a text, fragment, number, ..., fragment.
    split = _MARKS.split(processor.apply_template(conversation))
    if [int(number) for number in split[1::2]] != list(range(next(numbers))):
        raise _TextsMoved("the chat template drops or reorders parts of this conversation")
    pieces: list[_Piece | int] = []
    for index, piece in enumerate(split[begin:], begin):
        pieces += [int(piece)] if index % 2 else _fragment_pieces(piece, processor)
    return tuple(pieces)


def _content(kind: str, numbers: Iterator[int]) -> dict[str, str]:
    """A part as the template wants it; for every text stands its mark."""
    return {"type": kind, "text": _MARK.format(next(numbers))} if kind == "text" else {"type": kind}


def _form(message: Message, conversation: _Conversation) -> tuple[str, ...]:
    """The kinds of a message's parts, as templates name them."""
    return tuple(
        conversation.media[part.medium].kind if isinstance(part, MediaPart) else "text" for part in message.parts
    )


def _role(message: Message, conversation: _Conversation) -> str:
    if message.role not in ROLES:
        raise DataError(f"{conversation.where}: unknown role {message.role!r}; known: {', '.join(ROLES)}")
    return message.role


def _part_text(part: TextPart | GeometryPart | SpacePart, conversation: _Conversation) -> str:
    if isinstance(part, TextPart):
        return part.text
    return _space_text(part, conversation) if isinstance(part, SpacePart) else _geometry_text(part, conversation)


def _space_text(part: SpacePart, conversation: _Conversation) -> str:
    """The words for the space the model answers in, about the medium the answer speaks about."""
    medium = answer_medium(conversation.media, kind=part.kind)
    if medium is None:
        raise DataError(f"{conversation.where}: the template asks for a {part.kind}, but the row has no medium for it")
    return describe_space(_model_space(part.kind, conversation), medium, kind=part.kind)


def _model_space(kind: GeometryKind, conversation: _Conversation) -> str:
    processor = conversation.processor
    space = processor.time_space if kind == "time" else processor.box_space
    if space is None:
        name = processor.family.name
        raise DataError(
            f"{conversation.where}: how {name} models write places is not known; say it with model.box_space (0..1000)"
        )
    return space


def _geometry_text(part: GeometryPart, conversation: _Conversation) -> str:
    """A box, point or time written in the model's space, for the medium it belongs to as the model sees it."""
    target = _model_space(part.kind, conversation)
    try:
        entry = conversation.media[part.medium]
        values = place(part.values, entry, kind=part.kind, source_space=part.space, target_space=target)
        return format_geometry(values, part.kind)
    except (ValueError, IndexError) as error:
        raise DataError(f"{conversation.where}: {part.kind} {list(part.values)} in the prompt: {error}") from error


def _fragment_pieces(fragment: str, processor: FamilyProcessor) -> list[_Piece]:
    """A template fragment cut at its special tokens and at the marks of media."""
    pieces = processor.special_pattern.split(fragment)
    return [_special(piece, processor) if index % 2 else _Text(piece) for index, piece in enumerate(pieces) if piece]


def _special(spelling: str, processor: FamilyProcessor) -> _Token | _Mark:
    if spelling in processor.marks:
        return _Mark(spelling, processor.marks[spelling])
    return _Token(processor.special_ids[spelling])


def _expand(pieces: Iterable[_Piece], conversation: _Conversation) -> Iterator[_Piece]:
    """The template's marks replaced by what stands for the media, in order."""
    waiting = iter(conversation.placed)
    for piece in pieces:
        if not isinstance(piece, _Mark):
            yield piece
            continue
        medium = next(waiting, None)
        if medium is None or conversation.media[medium].kind != piece.kind:
            raise DataError(_misplaced(conversation))
        yield from _media_pieces(medium, conversation.media[medium], conversation.processor)
    if next(waiting, None) is not None:
        raise DataError(_misplaced(conversation))


def _misplaced(conversation: _Conversation) -> str:
    folder = conversation.processor.folder
    kinds = [conversation.media[medium].kind for medium in conversation.placed]
    return f"{conversation.where}: the chat template of {folder} does not write one placeholder for each of {kinds}"


def _media_pieces(medium: int, entry: MediaEntry, processor: FamilyProcessor) -> Iterator[_Piece]:
    """The family's text for a medium, with its runs of placeholders."""
    token_id = processor.image_token_id if entry.kind == "image" else processor.video_token_id
    if token_id is None:
        raise DataError(f"the {processor.family.name} family reads no clips")
    first = 0
    for piece in processor.geometry.placeholder(entry):
        if isinstance(piece, str):
            yield from _plain_pieces(piece, processor)
        else:
            yield _Run(token_id, medium, piece, first)
            first += piece


def _plain_pieces(text: str, processor: FamilyProcessor) -> Iterator[_Piece]:
    """The family's own text around a medium; a mark in it is a token like any other."""
    for index, piece in enumerate(processor.special_pattern.split(text)):
        if piece:
            yield _Token(processor.special_ids[piece]) if index % 2 else _Text(piece)


def _encode(pieces: Iterable[_Piece], processor: FamilyProcessor) -> tuple[list[int], list[Placeholder]]:
    ids: list[int] = []
    placeholders: list[Placeholder] = []
    touching: list[str] = []
    for piece in pieces:
        if isinstance(piece, _Mark):
            piece = _unexpanded(piece, processor)
        if isinstance(piece, _Text):
            touching.append(piece.text)
            continue
        if touching:
            ids += processor.encode_text("".join(touching))
            touching.clear()
        if isinstance(piece, _Run):
            placeholders.append(Placeholder(len(ids), piece.length, piece.medium, piece.first))
            ids += [piece.token_id] * piece.length
        else:
            ids.append(piece.token_id)
    if touching:
        ids += processor.encode_text("".join(touching))
    return ids, placeholders


def _unexpanded(piece: _Mark, processor: FamilyProcessor) -> _Token | _Text:
    """A mark as the template wrote it: a token, or letters where the vocabulary has none."""
    token_id = processor.special_ids.get(piece.spelling)
    return _Text(piece.spelling) if token_id is None else _Token(token_id)


def with_completion(prompt: RenderedPrompt, completion_ids: Sequence[int]) -> RenderedPrompt:
    """The prompt with a completion behind it, ids as sampled."""
    length = len(completion_ids)
    return RenderedPrompt(
        sample_id=prompt.sample_id,
        prompt_ids_T=torch.cat((prompt.prompt_ids_T, torch.tensor(completion_ids, dtype=torch.int64))),
        position_ids_3T=torch.cat((prompt.position_ids_3T, text_positions(prompt.next_position, length)), dim=1),
        next_position=prompt.next_position + length,
        placeholders=prompt.placeholders,
        media=prompt.media,
        engine_ids=(*prompt.engine_ids, *completion_ids),
    )


def _append(prompt: RenderedPrompt, pieces: Sequence[_Piece], conversation: _Conversation) -> RenderedPrompt:
    """The prompt with these pieces behind it; media in them are those of the conversation."""
    added = _rendered(prompt.sample_id, pieces, conversation, start=prompt.next_position)
    offset = len(prompt.prompt_ids_T)
    moved = (Placeholder(run.start + offset, run.length, run.medium, run.first) for run in added.placeholders)
    return RenderedPrompt(
        sample_id=prompt.sample_id,
        prompt_ids_T=torch.cat((prompt.prompt_ids_T, added.prompt_ids_T)),
        position_ids_3T=torch.cat((prompt.position_ids_3T, added.position_ids_3T), dim=1),
        next_position=added.next_position,
        placeholders=(*prompt.placeholders, *moved),
        media=added.media,
        engine_ids=(*prompt.engine_ids, *added.engine_ids),
    )


def _rendered(sample_id: str, pieces: Sequence[_Piece], conversation: _Conversation, *, start: int) -> RenderedPrompt:
    """These pieces alone, the first one at position `start`."""
    processor, media = conversation.processor, conversation.media
    ids, runs = _encode(_expand(pieces, conversation), processor)
    positions_3T, next_position = prompt_positions(len(ids), runs, media, processor.geometry, start=start)
    _assert_counts(runs, [media[medium] for medium in conversation.placed], processor)
    return RenderedPrompt(
        sample_id=sample_id,
        prompt_ids_T=torch.tensor(ids, dtype=torch.int64),
        position_ids_3T=positions_3T,
        next_position=next_position,
        placeholders=tuple(runs),
        media=tuple(media),
        engine_ids=tuple(_encode(pieces, processor)[0] if conversation.placed else ids),
    )


def _assert_counts(runs: Sequence[Placeholder], placed: Sequence[MediaEntry], processor: FamilyProcessor) -> None:
    """Placeholders are as many as the grids' tokens: the features that will take their places fit exactly."""
    count = processor.geometry.count_tokens
    pads = sum(run.length for run in runs)
    tokens = sum(count(entry.kind, entry.grid_thw, entry.source_size) for entry in placed)
    assert pads == tokens == sum(entry.num_tokens for entry in placed), (pads, tokens)
