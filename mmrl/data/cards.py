"""Dataset cards: how the columns of a file become a Sample.

A card is written inline in the config, in a card.yaml, or is a preset shipped in datasets/<name>/card.yaml. Everything
that can be wrong with a row is found here, by the same code for every format, with the row's place in the message.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mmrl.config.load import read_section
from mmrl.config.schema import CardSection
from mmrl.data.conversation import ROLES, Tokens, Turn, cut, is_messages, read_turns, single_reply, split_reply
from mmrl.data.locate import MediaRules
from mmrl.data.made_columns import check_make, lookup, with_made
from mmrl.data.media_cell import read_media_cell
from mmrl.data.placeholders import PATH, Filler, check_counts, media_in_front
from mmrl.data.sample import GeometryPart, MediaKind, MediaRef, Message, Part, Sample, TextPart
from mmrl.data.templates import Templates, apply_templates, join_text
from mmrl.errors import ConfigError, DataError, did_you_mean, type_words
from mmrl.plugins import shipped_dir

FIELDS = (
    *("prompt", "input", "history", "answer", "answer_space", "images", "videos"),
    *("task", "id", "system", "modality", "demonstration"),
)
# These are common names of columns that mean something else, so they are read only where a card maps them.
_ONLY_MAPPED = ("input", "history")
_MEDIA: dict[MediaKind, str] = {"image": "images", "video": "videos"}


def resolve_card(card: str | CardSection, *, relative_to: Path) -> CardSection:
    """The card with its preset filled in and checked. A string is a path to a YAML file or a shipped card's name."""
    if isinstance(card, str):
        is_path = "/" in card or card.endswith((".yaml", ".yml"))
        card = read_section(relative_to / card, CardSection) if is_path else _shipped_card(card)
    if card.preset is not None:
        card = _over_preset(card, _shipped_card(card.preset))
    _check_card(card)
    return card


def _shipped_card(name: str) -> CardSection:
    folder = shipped_dir("datasets")
    known = sorted(path.parent.name for path in folder.glob("*/card.yaml"))
    if name not in known:
        listed = f"shipped: {', '.join(known)}; a file is named by `card: ./card.yaml`"
        raise ConfigError(f"unknown card {name!r}; {listed}{did_you_mean(name, known)}")
    return read_section(folder / name / "card.yaml", CardSection)


def _over_preset(card: CardSection, preset: CardSection) -> CardSection:
    """The preset with the keys that the card sets itself; `columns`, `make`, `optional` and `required` extend the
    preset's.

    A column that the card maps itself is required, unless its own `optional` lists the field.
    """
    if preset.preset is not None:
        raise ConfigError(f"card preset {card.preset!r} names a preset itself; only one level is read")
    own = {key: getattr(card, key) for key in card.model_fields_set - {"preset"}}
    own["columns"] = {**preset.columns, **card.columns}
    own["make"] = {**preset.make, **card.make}
    mapped = [name for name, column in card.columns.items() if column is not None]
    own["optional"] = (*_without(preset.optional, (*mapped, *card.required)), *card.optional)
    own["required"] = (*_without((*preset.required, *mapped), card.optional), *card.required)
    return preset.model_copy(update=own)


def _without(names: Iterable[str], left_out: Container[str]) -> list[str]:
    return [name for name in names if name not in left_out]


def _check_card(card: CardSection) -> None:
    for key, names in (("columns", card.columns), ("optional", card.optional), ("required", card.required)):
        for name in names:
            if name not in FIELDS:
                hint = did_you_mean(name, FIELDS)
                raise ConfigError(f"card.{key}: unknown sample field {name!r}; known: {', '.join(FIELDS)}{hint}")
    _check_required(card)
    _check_placeholders(card)
    check_make(card.make)
    for written, role in card.roles.items():
        if role not in ROLES:
            raise ConfigError(f"card.roles: {written!r} stands for {role!r}; a role is one of {', '.join(ROLES)}")


def _check_required(card: CardSection) -> None:
    """ConfigError for a field that must be in every row, and has no column or is optional as well."""
    for name in ("prompt", *card.required):
        if name in card.optional:
            raise ConfigError(f"card: {name} is both required and optional; it can be one of them")
        if not _columns_of(card)[name]:
            raise ConfigError(f"card: {name} must be in every row, but has no column; set `columns: {{{name}: ...}}`")


def _columns_of(card: CardSection) -> dict[str, tuple[str, ...]]:
    """Sample field -> the columns that may hold it."""
    own = {name: name for name in FIELDS if name not in _ONLY_MAPPED}
    return {name: _names((own | card.columns).get(name)) for name in FIELDS}


def _check_placeholders(card: CardSection) -> None:
    tokens = [token for _, token in _media_tokens(card)]
    tokens += [t for t in (card.geometry_placeholder, card.text_placeholder) if t is not None]
    if "" in tokens or len(set(tokens)) != len(tokens):
        raise ConfigError(f"card: placeholders must be different, non-empty strings, not {tokens}")
    for token in tokens:
        if PATH in token and (token.startswith(PATH) or token.endswith(PATH) or token.count(PATH) > 1):
            raise ConfigError(f"card: the placeholder {token!r} needs text on both sides of one {PATH}")
    for kind in ("geometry", "text"):
        if (getattr(card, f"{kind}_placeholder") is None) != (getattr(card, f"{kind}_column") is None):
            raise ConfigError(f"card: {kind}_placeholder and {kind}_column go together; set both or neither")
    if card.geometry_placeholder is not None and card.answer_space is None:
        raise ConfigError("card: geometry_placeholder needs answer_space, the space the column's numbers are in")


@dataclass(frozen=True)
class CardReader:
    """Makes Samples of the rows of one dataset.

    stem: of the data file; a row without an id is called `<stem>:<row number>`, counted from 1.
    root: absolute folder that relative media paths start from. rules: what the dataset says of all its media.
    """

    card: CardSection
    dataset: str
    stem: str
    root: Path
    templates: Templates
    rules: MediaRules = field(default_factory=MediaRules)

    def sample(
        self, row: Mapping[str, Any], *, number: int, origin: str, given: Mapping[str, Any] = MappingProxyType({})
    ) -> Sample:
        """The Sample of a row. DataError (MissingMediaError for an absent file) starts with the row's place.

        given: values of columns in place of the row's, as of `with_made`.
        """
        where, sample_id = origin, None
        try:
            sample_id = self.sample_id(row, number)
            where = f"{origin} (id={sample_id})"
            made = with_made(row, self.card.make, given=given, root=self.root)
            return self._sample(made, sample_id=sample_id, origin=origin)
        except DataError as error:
            raise type(error)(error.reason, where=where, sample_id=sample_id, path=error.path) from error

    def with_made(self, row: Mapping[str, Any], columns: Iterable[str]) -> Mapping[str, Any]:
        """The row, with the columns that the card makes, but of files, where one of these is among them."""
        return with_made(row, self.card.make) if any(column in self.card.make for column in columns) else row

    def sample_id(self, row: Mapping[str, Any], number: int) -> str:
        """The id of row `number` (from 0); DataError for a value that can be none."""
        value = self._value(self.with_made(row, self._columns["id"]), "id")
        if value is None:
            return f"{self.stem}:{number + 1}"
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise DataError(f"the id {value!r} must be a non-empty string or an integer")
        return str(value)

    def _sample(self, row: Mapping[str, Any], *, sample_id: str, origin: str) -> Sample:
        values = self._values(row)
        space = self._space(values["answer_space"])
        modality = _text(values["modality"], "modality") or self.card.modality
        filler = self._filler(row, values, modality=modality, space=space)
        messages, demonstration = self._conversation(values, filler, self._geometry_media(row))
        task = _text(values["task"], "task") or self.card.task
        if task is None:
            columns = " or ".join(map(repr, self._columns["task"])) or "'task'"
            raise DataError(f"no task: the column {columns} is absent or empty; set `task` in the card")
        kinds = {ref.kind for ref in filler.media}
        return Sample(
            sample_id=sample_id,
            task=task,
            modality=modality or ("video" if "video" in kinds else "image" if kinds else "text"),
            messages=apply_templates(messages, self.templates, task=task, columns=row),
            media=tuple(filler.media),
            answer=self._answer(values["answer"], demonstration),
            answer_space=space,
            columns=self._other_columns(row, demonstration),
            origin=origin,
            dataset=self.dataset,
        )

    @cached_property
    def _columns(self) -> dict[str, tuple[str, ...]]:
        return _columns_of(self.card)

    @cached_property
    def _optional(self) -> frozenset[str]:
        """Sample fields that a row may lack; a field without a column lacks in every row."""
        without_column = {name for name, columns in self._columns.items() if not columns}
        elsewhere = {"answer"} if self.card.answer_from_demonstration else set()
        usual = set(FIELDS) - {"prompt", "answer"} | without_column | elsewhere
        return frozenset(usual | set(self.card.optional)) - set(self.card.required)

    @cached_property
    def _taken(self) -> frozenset[str]:
        return frozenset(column for columns in self._columns.values() for column in columns)

    def _values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """All sample fields. Most have one plain column, which is read without more ado: this runs for every row."""
        values = {name: row.get(column) for name, column in self._plain.items()}
        for name in FIELDS:
            if values.get(name) is None and (name not in self._plain or name not in self._optional):
                values[name] = self._value(row, name)
        return values

    @cached_property
    def _plain(self) -> dict[str, str]:
        """Sample fields that stand in one column, and not inside a mapping."""
        return {
            name: columns[0] for name, columns in self._columns.items() if len(columns) == 1 and "." not in columns[0]
        }

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        """The value of a sample field; None where an optional one is absent or null."""
        columns = self._columns[name]
        if name in self._plain and (value := row.get(self._plain[name])) is not None:
            return value
        found = [(column, value) for column in columns if (value := lookup(row, column)) is not None]
        if len(found) > 1:
            raise DataError(f"columns {' and '.join(column for column, _ in found)} both hold the {name}; keep one")
        if found or name in self._optional:
            return found[0][1] if found else None
        shown = " or ".join(map(repr, columns))
        if any(column in row for column in columns):
            raise DataError(f"column {shown} ({name}) is null; list {name} in the card's `optional` if that is meant")
        present = ", ".join(row) or "none"
        raise DataError(
            f"no column {shown} for the sample field {name}; columns present: {present}. "
            f"Set `columns: {{{name}: ...}}` in the card, or list {name} in its `optional`"
        )

    def _space(self, written: Any) -> str | None:
        """The answer's space: the row's, by the card's name for it, else the card's."""
        named = _text(written, "answer_space")
        return self.card.answer_space if named is None else self.card.spaces.get(named, named)

    def _filler(
        self, row: Mapping[str, Any], values: Mapping[str, Any], *, modality: str | None, space: str | None
    ) -> Filler:
        """The row's media, geometry values and words. Without a declared modality media have their kind's budget."""

        def read(kind: MediaKind, value: Any, name: str = "the prompt's medium") -> list[MediaRef]:
            budget = None if modality is not None else kind
            return read_media_cell(value, kind, field=name, root=self.root, budget=budget, rules=self.rules)

        columns: dict[MediaKind, list[MediaRef]] = {
            kind: [] if values[name] is None else read(kind, values[name], name) for kind, name in _MEDIA.items()
        }
        return Filler(columns, read, geometry=self._geometry(row, space), words=self._words(row))

    def _geometry(self, row: Mapping[str, Any], space: str | None) -> list[GeometryPart]:
        column = self.card.geometry_column
        values = None if column is None else lookup(row, column)
        if column is None or values is None:
            return []
        assert space is not None  # a card with a geometry column declares one
        places = values if isinstance(values, list) and all(isinstance(v, list) for v in values) else [values]
        return [GeometryPart(self.card.geometry_kind, _numbers(v, column), space) for v in places]

    def _geometry_media(self, row: Mapping[str, Any]) -> list[int] | None:
        """For each geometry value the image it lies in, counted from 0; None: all in the first medium."""
        column = self.card.geometry_medium_column
        numbers = None if column is None else lookup(row, column)
        if numbers is not None and not (isinstance(numbers, list) and all(isinstance(n, int) for n in numbers)):
            raise DataError(f"column {column!r} must hold a list of image numbers, not {numbers!r:.80}")
        return numbers

    def _words(self, row: Mapping[str, Any]) -> list[str]:
        column = self.card.text_column
        words = None if column is None else lookup(row, column)
        listed = [] if words is None else [words] if isinstance(words, str) else words
        if not isinstance(listed, list) or not all(isinstance(word, str) for word in listed):
            raise DataError(f"column {column!r} must hold text or a list of texts, not {words!r:.80}")
        return listed

    def _conversation(
        self, values: Mapping[str, Any], filler: Filler, geometry_media: list[int] | None
    ) -> tuple[list[Message], Any]:
        """The messages, and the demonstration: the assistant's last turn, or what the column holds."""
        turns, reply = self._turns(values)
        texts = [cut(turn, self._tokens) for turn in turns]
        last = cut(reply, self._tokens) if reply else []
        check_counts([*texts, last], filler.given, searched=self._tokens.counted)
        front, texts = media_in_front(texts, filler.given, lift=self.card.placeholders == "leading")
        first = next(n for n, turn in enumerate(turns) if turn.role == "user")
        texts[first] = [*front, *texts[first]]
        messages = [Message(turn.role, join_text(filler.parts(t))) for turn, t in zip(turns, texts, strict=True)]
        demonstration = _reply_value(filler.parts(last)) if reply else values["demonstration"]
        if filler.given["geometry"] and not filler.media:
            raise DataError(f"column {self.card.geometry_column!r} holds values, but the row has no medium")
        placed = _in_media(messages, filler.media, geometry_media)
        return placed, None if demonstration == "" else demonstration

    def _turns(self, values: Mapping[str, Any]) -> tuple[list[Turn], Turn | None]:
        """The prompt's turns and the assistant's turn that follows them in the row, if there is one."""
        roles = self.card.roles
        extra, system = _text(values["input"], "input") or None, _text(values["system"], "system") or None
        turns = read_turns(values["prompt"], extra=extra, history=values["history"], system=system, roles=roles)
        prompt, reply = split_reply(turns)
        column = values["demonstration"]
        if reply is not None and column not in (None, ""):
            raise DataError("the prompt ends with the assistant's turn, and a column holds a demonstration; keep one")
        if is_messages(column):
            reply = single_reply(column, roles)
        return prompt, reply

    @cached_property
    def _tokens(self) -> Tokens:
        """The placeholder strings that are searched for."""
        card = self.card
        media = {token: kind for kind, token in _media_tokens(card)}
        if card.placeholders == "leading":  # text is left alone, but for the media that it names itself
            media = {token: kind for token, kind in media.items() if PATH in token}
        values = {card.geometry_placeholder: "geometry", card.text_placeholder: "text"}
        return Tokens(media, {token: kind for token, kind in values.items() if token is not None})

    def _answer(self, column: Any, demonstration: Any) -> Any:
        if column is not None or not self.card.answer_from_demonstration:
            return column
        if demonstration is None and "answer" not in self.card.optional:
            columns = " or ".join(map(repr, self._columns["answer"]))
            raise DataError(f"no answer: neither a column {columns} nor an assistant's turn after the prompt")
        return demonstration

    def _other_columns(self, row: Mapping[str, Any], demonstration: Any) -> dict[str, Any]:
        """Every column that is no sample field, and the demonstration under that name."""
        taken = self._taken
        others = {column: value for column, value in row.items() if column not in taken}
        if demonstration is None:
            return others
        if others.get("demonstration") is not None:
            raise DataError(
                "the row holds a demonstration in two places, one of them the column of that name; keep one"
            )
        return {**others, "demonstration": demonstration}


def _names(columns: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else columns or ()


def _media_tokens(card: CardSection) -> list[tuple[MediaKind, str]]:
    pairs: list[tuple[MediaKind, str]] = [("image", token) for token in _names(card.image_placeholder)]
    return [*pairs, *(("video", token) for token in _names(card.video_placeholder))]


def _text(value: Any, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise DataError(f"{name} must be a string, not {type_words(value)}")


def _numbers(value: Any, column: str) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(isinstance(v, int | float) for v in value):
        raise DataError(f"column {column!r} must hold a list of numbers or a list of such lists, not {value!r}")
    return tuple(float(v) for v in value)


def _reply_value(parts: Sequence[Part]) -> Any:
    """The assistant's last turn as a value: its text, or the numbers (one place or a list of them) it consists of."""
    places = [list(part.values) for part in parts if isinstance(part, GeometryPart)]
    text = "".join(part.text for part in parts if isinstance(part, TextPart))
    if not places:
        return text
    if text.strip():
        raise DataError(
            "the assistant's last turn mixes words with geometry placeholders; an answer is text or places, not both"
        )
    return places[0] if len(places) == 1 else places


def _in_media(messages: list[Message], media: Sequence[MediaRef], numbers: list[int] | None) -> list[Message]:
    """The messages with each geometry value in the image that `numbers` says (None: all in the first medium)."""
    if numbers is None:
        return messages
    images = [n for n, ref in enumerate(media) if ref.kind == "image"]
    waiting = iter(numbers)

    def placed(part: Part) -> Part:
        if not isinstance(part, GeometryPart):
            return part
        number = next(waiting, None)
        if number is None or not 0 <= number < len(images):
            raise DataError(f"a geometry value lies in image {number}, but the row has {len(images)}, counted from 0")
        return replace(part, medium=images[number])

    return [Message(message.role, tuple(map(placed, message.parts))) for message in messages]
