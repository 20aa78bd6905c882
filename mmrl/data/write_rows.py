"""Samples as rows of other tools: one function a tool, the inverse of what its card reads. Pure.

Each sets the columns of the conversation in a draft; `TARGETS` lists them, with what else there is to know of a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmrl.config.schema import CardSection
from mmrl.data.locations import ArchiveMember, FrameFiles, PdfPage, RawBytes, Url
from mmrl.data.sample import GeometryPart, MediaKind, MediaPart, MediaRef, Message, Part, Sample, TextPart
from mmrl.errors import MmrlError

_OPTIONS = {"start_s": "video_start", "end_s": "video_end", "sample_fps": "fps"}  # ours -> as rows write it
_FORMS = {PdfPage: "a page of a PDF", Url: "on the web; download it", FrameFiles: "a clip given as frames"}
_SHAREGPT = {"user": "human", "assistant": "gpt"}


class LossError(MmrlError):
    """What a row of the target cannot hold. kind: a name that `--drop` may know."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass
class Draft:
    """A sample on its way to a row of `card`; `row` grows. folder: of the file that is written."""

    sample: Sample
    card: CardSection
    folder: Path
    reply: str | None
    row: dict[str, Any] = field(default_factory=dict)
    boxes: list[GeometryPart] = field(default_factory=list)

    def text(self, parts: Sequence[Part]) -> str:
        """The parts with the card's placeholders in them."""
        return "".join(self._token(part) for part in parts)

    def _token(self, part: Part) -> str:
        if isinstance(part, TextPart):
            return part.text
        if isinstance(part, GeometryPart):
            if self.card.geometry_placeholder is None or part.kind != self.card.geometry_kind:
                raise LossError("geometry", f"a {part.kind} inside the prompt")
            self.boxes.append(part)
            return self.card.geometry_placeholder
        assert isinstance(part, MediaPart)  # rows hold no other parts
        kind = self.sample.media[part.medium].kind
        tokens = self.card.image_placeholder if kind == "image" else self.card.video_placeholder
        assert tokens is not None  # of a target that writes text
        return tokens if isinstance(tokens, str) else tokens[0]

    def parts(self, message: Message, medium: Callable[[MediaRef], dict[str, Any]]) -> str | list[dict[str, Any]]:
        """The content of a message as a list of parts; as text where it has no media."""
        if not any(isinstance(part, MediaPart) for part in message.parts):
            return self.text(message.parts)
        return [
            medium(self.sample.media[part.medium])
            if isinstance(part, MediaPart)
            else {"type": "text", "text": self.text([part])}
            for part in message.parts
        ]

    def put(self, column: str, value: Any) -> None:
        """Set a column; `a.b` is b inside the mapping a, whose other keys stay."""
        outer, _, inner = column.partition(".")
        self.row[outer] = {**(self.row.get(outer) or {}), inner: value} if inner else value

    def media(self, kind: MediaKind, target: Target) -> list[Any]:
        return [_medium_cell(ref, self.folder, target) for ref in self.sample.media if ref.kind == kind]


def options_of(ref: MediaRef) -> dict[str, Any]:
    """What a medium has besides its place, as rows write it: its span, its rate, its own budget."""
    more = {"start_s": ref.start_s, "end_s": ref.end_s, "source_fps": ref.source_fps, **ref.budget_keys}
    more |= {"budget": None if ref.budget in (None, ref.kind) else ref.budget}
    return {_OPTIONS.get(key, key): value for key, value in more.items() if value is not None}


def _medium_cell(ref: MediaRef, folder: Path, target: Target) -> Any:
    """A medium as a cell: its place, or a mapping where it has options and the target knows such."""
    where, given = _place(ref, folder, target), options_of(ref)
    if given and not target.options:
        raise LossError("options", f"{', '.join(given)} of a medium")
    return {ref.kind: where, **given} if given else where


def _place(ref: MediaRef, folder: Path, target: Target) -> Any:
    source = ref.source
    if isinstance(source, Path):
        return str(source.relative_to(folder) if source.is_relative_to(folder) else source)
    if isinstance(source, Url) and "url" in target.places:
        return source.url
    if (
        isinstance(source, FrameFiles)
        and "frames" in target.places
        and all(isinstance(file, Path) for file in source.files)
    ):
        return [str(file) for file in source.files]
    if isinstance(source, RawBytes | ArchiveMember):
        lies = "in the row as bytes" if isinstance(source, RawBytes) else f"in an archive, {source}"
        raise LossError("media", f"a medium that lies {lies}; name a folder for its file with --media-dir")
    raise LossError("media", f"a medium that is {_FORMS.get(type(source), 'no file')}")


def _refuse_system(draft: Draft) -> None:
    if draft.sample.messages[0].role == "system":
        raise LossError("system", "a system turn")


def _single_prompt(draft: Draft) -> str:
    _refuse_system(draft)
    first, *more = draft.sample.messages
    if more:
        raise LossError("turns", "a conversation of several turns")
    return draft.text(first.parts)


def _chat(draft: Draft, keys: tuple[str, str], roles: Mapping[str, str], *, reply: bool) -> list[dict[str, str]]:
    """The conversation as messages of text, with the reply as its last where there is one."""
    turns = [(message.role, draft.text(message.parts)) for message in draft.sample.messages]
    turns += [("assistant", draft.reply)] if reply and draft.reply is not None else []
    return [{keys[0]: roles.get(role, role), keys[1]: text} for role, text in turns]


def _write_easyr1(draft: Draft) -> None:
    draft.row["problem"] = _single_prompt(draft)
    if draft.reply is not None:
        draft.row["offline_output"] = draft.reply


def _write_verl(draft: Draft) -> None:
    draft.row["prompt"] = _chat(draft, ("role", "content"), {}, reply=False)
    draft.put("reward_model.style", (draft.row.get("reward_model") or {}).get("style", "rule"))
    if draft.sample.columns.get("demonstration") is not None:
        draft.row["demonstration"] = draft.sample.columns["demonstration"]


def _write_trl(draft: Draft) -> None:
    sample = draft.sample
    draft.row["prompt"] = [
        {"role": m.role, "content": draft.parts(m, lambda ref: {"type": ref.kind})} for m in sample.messages
    ]
    if draft.reply is not None:
        draft.row["completion"] = [{"role": "assistant", "content": draft.reply}]


def _write_swift(draft: Draft) -> None:
    draft.row["messages"] = _chat(draft, ("role", "content"), {}, reply=True)
    reply = draft.sample.columns.get("demonstration")
    places = reply if isinstance(reply, list) and reply and all(isinstance(v, list) for v in reply) else [reply]
    boxes = [list(box.values) for box in draft.boxes]
    if isinstance(reply, list):
        draft.row["messages"].append({"role": "assistant", "content": "<bbox>" * len(places)})
        boxes += places
    if boxes:
        images = [n for n, ref in enumerate(draft.sample.media) if ref.kind == "image"]
        space = draft.sample.answer_space or ""
        names = {ours: theirs for theirs, ours in draft.card.spaces.items()}
        if space not in names or any(box.space != space or box.medium not in images for box in draft.boxes):
            raise LossError("geometry", f"boxes in {space or 'no space'}, or in a clip")
        draft.row["objects"] = {"ref": [], "bbox": boxes, "bbox_type": names[space]}
        if any(box.medium for box in draft.boxes):
            draft.row["objects"]["image_id"] = [images.index(box.medium) for box in draft.boxes]


def _write_llamafactory(draft: Draft) -> None:
    turns = _chat(draft, ("from", "value"), _SHAREGPT, reply=True)
    if turns[0]["from"] == "system":
        draft.row["system"] = turns.pop(0)["value"]
    draft.row["conversations"] = turns


def _write_alpaca(draft: Draft) -> None:
    turns = [(message.role, draft.text(message.parts)) for message in draft.sample.messages]
    if turns[0][0] == "system":
        draft.row["system"] = turns.pop(0)[1]
    draft.row["instruction"] = turns[-1][1]
    earlier = turns[:-1]
    if [role for role, _ in earlier] != ["user", "assistant"] * (len(earlier) // 2):
        raise LossError("turns", "turns that are no pairs of question and reply")
    draft.row["output"] = draft.reply
    if earlier:
        pairs = zip(earlier[::2], earlier[1::2], strict=True)
        draft.row["history"] = [[question, reply] for (_, question), (_, reply) in pairs]


def _write_conversations(draft: Draft) -> None:
    _refuse_system(draft)
    draft.row["conversations"] = _chat(draft, ("from", "value"), _SHAREGPT, reply=True)


def _write_openai(draft: Draft) -> None:
    def part(ref: MediaRef) -> dict[str, Any]:
        cell = _medium_cell(ref, draft.folder, TARGETS["openai"])
        if isinstance(cell, dict):
            return {"type": ref.kind, **cell}
        is_url = ref.kind == "image" and isinstance(cell, str)
        return {"type": "image_url", "image_url": {"url": cell}} if is_url else {"type": ref.kind, ref.kind: cell}

    turns = [{"role": m.role, "content": draft.parts(m, part)} for m in draft.sample.messages]
    turns += [{"role": "assistant", "content": draft.reply}] if draft.reply is not None else []
    draft.row["messages"] = turns


@dataclass(frozen=True)
class Target:
    """How rows of a tool are written.

    write: sets the conversation's columns. media: columns of images and clips; empty: the conversation holds them.
    trains_on_reply: each row must end with the assistant's text. options: a cell may be a mapping with keys of its own.
    places: what a cell may hold besides the path of a file: `url`, `frames` (a list of paths).
    """

    write: Callable[[Draft], None]
    media: tuple[str, ...] = ("images", "videos")
    trains_on_reply: bool = False
    options: bool = False
    places: tuple[str, ...] = ()


TARGETS = {
    "easyr1": Target(_write_easyr1, places=("frames",)),
    "verl": Target(_write_verl, options=True, places=("url", "frames")),
    "trl": Target(_write_trl),
    "swift": Target(_write_swift, places=("url", "frames")),
    "llamafactory": Target(_write_llamafactory, trains_on_reply=True, places=("frames",)),
    "alpaca": Target(_write_alpaca, trains_on_reply=True, places=("frames",)),
    "llava": Target(_write_conversations, media=("image", "video"), trains_on_reply=True),
    "qwen_vl": Target(_write_conversations, media=("image", "video"), trains_on_reply=True),
    "openai": Target(_write_openai, media=(), options=True, places=("url", "frames")),
}
