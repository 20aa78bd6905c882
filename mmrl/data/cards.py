"""Dataset cards: how the columns of a file become a Sample.

A card is written inline in the config, in a card.yaml, or is a preset shipped in datasets/<name>/card.yaml. Everything
that can be wrong with a row is found here, by the same code for every format, with the row's place in the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.config.load import read_section
from mmrl.config.schema import CardSection
from mmrl.data.media_cell import read_media_cell
from mmrl.data.placeholders import Filler, check_counts, split_text
from mmrl.data.sample import GeometryPart, MediaKind, MediaRef, Message, Sample
from mmrl.data.templates import Templates, apply_templates, join_text
from mmrl.errors import ConfigError, DataError, did_you_mean
from mmrl.plugins import shipped_dir

FIELDS = ("prompt", "answer", "images", "videos", "task", "id", "system", "modality", "demonstration")
_ROLES = ("system", "user", "assistant")
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
    """The preset with the keys that the card sets itself. A column that the card maps itself is required again."""
    if preset.preset is not None:
        raise ConfigError(f"card preset {card.preset!r} names a preset itself; only one level is read")
    own = {key: getattr(card, key) for key in card.model_fields_set - {"preset"}}
    own["columns"] = {**preset.columns, **card.columns}
    if "optional" not in card.model_fields_set:
        own["optional"] = tuple(name for name in preset.optional if name not in card.columns)
    return preset.model_copy(update=own)


def _check_card(card: CardSection) -> None:
    for key, names in (("columns", card.columns), ("optional", card.optional)):
        for name in names:
            if name not in FIELDS:
                hint = did_you_mean(name, FIELDS)
                raise ConfigError(f"card.{key}: unknown sample field {name!r}; known: {', '.join(FIELDS)}{hint}")
    tokens = [t for t in (card.image_placeholder, card.video_placeholder, card.geometry_placeholder) if t is not None]
    if "" in tokens or len(set(tokens)) != len(tokens):
        raise ConfigError(f"card: placeholders must be different, non-empty strings, not {tokens}")
    if (card.geometry_placeholder is None) != (card.geometry_column is None):
        raise ConfigError("card: geometry_placeholder and geometry_column go together; set both or neither")
    if card.geometry_placeholder is not None and card.answer_space is None:
        raise ConfigError("card: geometry_placeholder needs answer_space, the space the column's numbers are in")


@dataclass(frozen=True)
class CardReader:
    """Makes Samples of the rows of one dataset.

    stem: of the data file; a row without an id is called `<stem>:<row number>`, counted from 1.
    root: absolute folder that relative media paths start from.
    """

    card: CardSection
    dataset: str
    stem: str
    root: Path
    templates: Templates

    def sample(self, row: Mapping[str, Any], *, number: int, origin: str) -> Sample:
        """The Sample of a row. DataError (MissingMediaError for an absent file) starts with the row's place."""
        where, sample_id = origin, None
        try:
            sample_id = self._sample_id(row, number)
            where = f"{origin} (id={sample_id})"
            return self._sample(row, sample_id=sample_id, origin=origin)
        except DataError as error:
            raise type(error)(error.reason, where=where, sample_id=sample_id, path=error.path) from error

    def _sample(self, row: Mapping[str, Any], *, sample_id: str, origin: str) -> Sample:
        values = {name: self._value(row, name) for name in FIELDS}
        modality = _text(values["modality"], "modality") or self.card.modality
        refs: dict[MediaKind, list[MediaRef]] = {
            kind: self._refs(kind, values[name], modality) for kind, name in _MEDIA.items()
        }
        geometry = self._geometry(row)
        if geometry and not (refs["image"] or refs["video"]):
            raise DataError(
                f"column {self.card.geometry_column!r} holds a {geometry[0].kind}, but the row has no medium"
            )
        filler = Filler(refs, geometry)
        messages = self._messages(values, filler)
        task = _text(values["task"], "task") or self.card.task
        if task is None:
            raise DataError(f"no task: the column {self._column('task')!r} is absent or empty; set `task` in the card")
        return Sample(
            sample_id=sample_id,
            task=task,
            modality=modality or ("video" if refs["video"] else "image" if refs["image"] else "text"),
            messages=apply_templates(messages, self.templates, task=task),
            media=tuple(filler.media),
            answer=values["answer"],
            answer_space=self.card.answer_space,
            columns=self._other_columns(row, values["demonstration"]),
            origin=origin,
            dataset=self.dataset,
        )

    def _column(self, name: str) -> str:
        return self.card.columns.get(name, name)

    def _value(self, row: Mapping[str, Any], name: str) -> Any:
        """The value of a sample field; None where an optional one is absent or null."""
        column = self._column(name)
        if row.get(column) is not None or name in self.card.optional:
            return row.get(column)
        if column in row:
            raise DataError(
                f"column {column!r} ({name}) is null; list {name} in the card's `optional` if that is meant"
            )
        present = ", ".join(row) or "none"
        raise DataError(
            f"no column {column!r} for the sample field {name}; columns present: {present}. "
            f"Set `columns: {{{name}: ...}}` in the card, or list {name} in its `optional`"
        )

    def _sample_id(self, row: Mapping[str, Any], number: int) -> str:
        value = self._value(row, "id")
        if value is None:
            return f"{self.stem}:{number + 1}"
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise DataError(f"the id {value!r} must be a non-empty string or an integer")
        return str(value)

    def _refs(self, kind: MediaKind, value: Any, modality: str | None) -> list[MediaRef]:
        """The row's media of a kind. Without a declared modality each medium has the budget of its own kind."""
        budget = None if modality is not None else kind
        return read_media_cell(value, kind, field=_MEDIA[kind], root=self.root, budget=budget)

    def _geometry(self, row: Mapping[str, Any]) -> list[GeometryPart]:
        card = self.card
        if card.geometry_column is None or card.answer_space is None:
            return []
        values = row.get(card.geometry_column)
        if values is None:
            return []
        places = values if isinstance(values, list) and all(isinstance(v, list) for v in values) else [values]
        return [GeometryPart(card.geometry_kind, _numbers(v, card.geometry_column), card.answer_space) for v in places]

    def _messages(self, values: Mapping[str, Any], filler: Filler) -> list[Message]:
        """The conversation; only user messages are searched for placeholders."""
        turns = _turns(values["prompt"], system=_text(values["system"], "system"))
        split = [split_text(text, self._tokens()) if role == "user" else [text] for role, text in turns]
        inline = self.card.placeholders == "inline"
        check_counts(split, filler.given, searched=("image", "video", "geometry") if inline else ("geometry",))
        messages = [Message(role, join_text(filler.parts(t))) for (role, _), t in zip(turns, split, strict=True)]
        if not inline:
            first = next(n for n, message in enumerate(messages) if message.role == "user")
            messages[first] = Message("user", (*filler.leading(), *messages[first].parts))
        return messages

    def _tokens(self) -> dict[str, str]:
        """Placeholder string -> kind, of the placeholders that are searched for."""
        card = self.card
        tokens = {card.geometry_placeholder: "geometry"}
        if card.placeholders == "inline":
            tokens |= {card.image_placeholder: "image", card.video_placeholder: "video"}
        return {token: kind for token, kind in tokens.items() if token is not None}

    def _other_columns(self, row: Mapping[str, Any], demonstration: Any) -> dict[str, Any]:
        """Every column that is no sample field, and the demonstration under that name."""
        taken = {self._column(name) for name in FIELDS}
        others = {column: value for column, value in row.items() if column not in taken}
        return others if demonstration is None else {**others, "demonstration": demonstration}


def _text(value: Any, name: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise DataError(f"{name} must be a string, not {type(value).__name__}")


def _numbers(value: Any, column: str) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(isinstance(v, int | float) for v in value):
        raise DataError(f"column {column!r} must hold a list of numbers or a list of such lists, not {value!r}")
    return tuple(float(v) for v in value)


def _turns(prompt: Any, *, system: str | None) -> list[tuple[str, str]]:
    """(role, text) of a prompt, which is a string or a list of {role, content} that ends with a user message."""
    turns = [("user", prompt)] if isinstance(prompt, str) else [_turn(message) for message in _listed(prompt)]
    if turns[-1][0] != "user":
        raise DataError(f"the prompt ends with a message of {turns[-1][0]!r}; it must end with one of 'user'")
    if system is not None:
        if turns[0][0] == "system":
            raise DataError("a system column and a system message in the prompt; keep one")
        turns.insert(0, ("system", system))
    if not turns[-1][1].strip():
        raise DataError("the prompt is empty")
    return turns


def _listed(prompt: Any) -> list[Any]:
    if not isinstance(prompt, list) or not prompt:
        raise DataError(
            f"the prompt must be a string or a list of messages, not {type(prompt).__name__} {prompt!r:.60}"
        )
    return prompt


def _turn(message: Any) -> tuple[str, str]:
    role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
    if role not in _ROLES or not isinstance(content, str):
        raise DataError(f"a message must be {{role: {'|'.join(_ROLES)}, content: string}}, not {message!r:.120}")
    return role, content
