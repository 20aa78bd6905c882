"""Sample: the only schema inside the program. Readers make Samples; everything after reads them.

A conversation is a list of messages, a message a list of parts. Media placeholders are parts of their own, found
once when the row is read; no later code searches text, so `<image>` typed by a user in a question stays text.

>>> Sample(
...     sample_id="geo-17", task="grounding", modality="image",
...     messages=(Message("user", (MediaPart(0), TextPart("Locate the dog."))),),
...     media=(MediaRef("image", Path("/data/dog.jpg")),),
...     answer=[133, 222, 310, 540], answer_space="original_px", origin="train.jsonl:381", dataset="dogs",
... ).media[0].kind
'image'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mmrl.data.locations import ArchiveMember, MediaSource, PdfPage, Url

MediaKind = Literal["image", "video"]
GeometryKind = Literal["box", "point", "time", "tube"]  # tube: boxes by time


@dataclass(frozen=True, slots=True)
class TextPart:
    """Plain text. Never parsed for placeholders or special tokens."""

    text: str


@dataclass(frozen=True, slots=True)
class MediaPart:
    """The place of `sample.media[medium]` in the conversation."""

    medium: int


@dataclass(frozen=True, slots=True)
class GeometryPart:
    """A box, point or time inside a prompt, written in the model's space when the prompt is rendered.

    `values` are in `space` (`original_px`, `model_px`, `0..1000`, `seconds`, ...) of `sample.media[medium]`.
    """

    kind: GeometryKind
    values: tuple[float, ...]
    space: str
    medium: int = 0


@dataclass(frozen=True, slots=True)
class SpacePart:
    """The words for the space the model writes boxes, points or times in, found when the prompt is rendered."""

    kind: GeometryKind


Part = TextPart | MediaPart | GeometryPart | SpacePart


@dataclass(frozen=True, slots=True)
class Message:
    """One turn: role is `system`, `user` or `assistant`."""

    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MediaRef:
    """One medium as a row names it: where its bytes are and what is wanted of it.

    source: absolute path or another place of mmrl.data.locations; or pixels made in memory, uint8 RGB (H, W, 3) for an
        image and (F, H, W, 3) for a clip.
    budget: name of a budget class; None means the sample's modality.
    source_fps: frames per second of a clip in memory or given as frame files (required there, None for others).
    start_s, end_s: the part of a clip that is shown, in seconds after its first frame; None: its start, its end.
    budget_keys: keys of the budget class that this medium sets itself (`{"max_frames": 8}`).
    """

    kind: MediaKind
    source: MediaSource
    budget: str | None = None
    source_fps: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    budget_keys: Mapping[str, float] = field(default_factory=dict)

    @property
    def has_name(self) -> bool:
        """Whether `source` is a short name of something outside the row, worth remembering: equal if it is the same."""
        file = self.source.file if isinstance(self.source, PdfPage) else self.source
        return isinstance(file, Path | ArchiveMember | Url)


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of a dataset, ready to be rendered.

    sample_id: unique within its dataset and stable over epochs; the key of all per-sample state.
    task: routes the reward. modality: names the budget class (`image`, `video`, `gui`, ...).
    answer: the dataset's answer, any JSON value, in `answer_space` where it is a place or a time.
    columns: every other column of the row; rewards may read them.
    origin: `file:line` for error messages.
    progress: share of its stage's steps that training has done when a completion is scored; 1 outside of training.
    """

    sample_id: str
    task: str
    modality: str
    messages: tuple[Message, ...]
    media: tuple[MediaRef, ...] = ()
    answer: Any = None
    answer_space: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    dataset: str = ""
    progress: float = 1.0

    @property
    def prompt_id(self) -> str:
        """Names the prompt over epochs and datasets: the key of all per-prompt state."""
        return f"{self.dataset}/{self.sample_id}"

    @property
    def where(self) -> str:
        """How error messages name this sample: `train.jsonl:381 (id=geo-17)`."""
        return f"{self.origin} (id={self.sample_id})" if self.origin else f"id={self.sample_id}"
