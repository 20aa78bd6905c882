"""The sections about data: cards, datasets, templates and policies for bad rows, how clips are opened."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from mmrl.config.section import (
    BudgetClass,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
)


class VideoSection(Section):
    reader: Literal["decord", "pyav", "opencv", "qwen_vl_utils", "torchcodec"] = Field(
        default="pyav", description="library that decodes clips"
    )
    deadline_s: PositiveFloat = Field(
        default=120.0, description="a decoder that takes longer for one file is killed; the file fails"
    )
    deadline_s_per_gb: NonNegativeFloat = Field(
        default=300.0, description="further seconds a decoder has for each gigabyte of the file"
    )
    broken_tail: Literal["use_decoded", "error"] = Field(
        default="error", description="a clip whose end does not decode: sample from what decodes, or fail"
    )


class RobotSection(Section):
    """Which frames of a LeRobot dataset folder become rows, and what a row shows of its cameras."""

    frame_stride: PositiveInt = Field(default=1, description="every k-th frame of an episode is a row, from its first")
    cameras: tuple[str, ...] = Field(
        default=(), description="features whose frames a row shows, in this order; empty: all"
    )
    clip_seconds: float = Field(
        default=0.0, ge=0, description="how far a camera's clip reaches back from the row's frame; 0: that frame alone"
    )


# What makes a column -> the keys that say more about it.
MADE_BY: dict[str, tuple[str, ...]] = {
    "text": (),
    "file": (),
    "items": ("alone", "strip", "named_in", "named_as"),
    "lettered": ("style",),
    "letter": ("options", "counted_from"),
    "number": (),
    "box": ("form",),
    "translate": ("to",),
    "mapping": (),
}


class MadeColumn(Section):
    """A column made of others: one of `text` to `mapping`, and what belongs to it."""

    text: str | None = Field(default=None, description='Jinja over the columns: "{{ videoID }}.mp4"; `row["video ID"]`')
    file: str | None = Field(
        default=None,
        description="text of a file, named by Jinja over the columns and looked for as media are: "
        '"subtitles/{{ videoID }}.srt"; of .srt and .vtt the spoken lines',
    )
    items: str | tuple[str, ...] | None = Field(
        default=None,
        description="a list: of these columns, up to the first empty one, or of one column, which may be a list "
        "written as text",
    )
    alone: bool = Field(default=False, description="of items: a text or number that is no list is a list of one")
    strip: str | None = Field(default=None, description="of items: regular expression taken off the start of each")
    named_in: str | None = Field(
        default=None, description="of items: column with a text; only items that it names, in its order"
    )
    named_as: str = Field(default="<image {n}>", description="of items: how that text names item n, counted from 1")
    lettered: str | None = Field(default=None, description="column with a list of options -> text, a line for each")
    style: str = Field(default="{letter}. {option}", description="of lettered: such a line")
    letter: str | None = Field(default=None, description="column with an option's number or text -> its letter")
    options: str | None = Field(
        default=None, description="of letter: column with the options; without any a row's value stays"
    )
    counted_from: Literal[0, 1] | None = Field(default=None, description="of letter: number of the first option")
    number: str | None = Field(default=None, description="column with a number, maybe as text -> number")
    box: str | tuple[str, str, str, str] | None = Field(
        default=None, description="four columns, or one with four numbers, maybe as text -> [x1, y1, x2, y2]"
    )
    form: Literal["xyxy", "xywh"] = Field(default="xyxy", description="of box: what the four numbers are")
    translate: str | None = Field(default=None, description="column whose values are replaced as `to` says")
    to: dict[str, Any] = Field(default_factory=dict, description="of translate: value as text -> other value")
    mapping: dict[str, str] | None = Field(
        default=None, description="key -> column: {video: path, video_start: start, video_end: end}"
    )

    @property
    def made_by(self) -> str:
        """Which of MADE_BY it is."""
        return next(name for name in MADE_BY if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _is_made_in_one_way(self) -> Self:
        ways = [name for name in MADE_BY if getattr(self, name) is not None]
        if len(ways) != 1:
            said = " and ".join(ways) or "none"
            raise ValueError(f"a column is made by one of {', '.join(MADE_BY)}; here {said}")
        more = self.model_fields_set - {*MADE_BY} - {*MADE_BY[ways[0]]}
        if more:
            raise ValueError(f"{', '.join(sorted(more))} does not belong to `{ways[0]}`")
        if self.letter is not None and (self.options is None) == (self.counted_from is None):
            raise ValueError(
                "`letter` needs `options` (the column holds an option's text) or `counted_from` (its number)"
            )
        if self.translate is not None and not self.to:
            raise ValueError("`translate` needs `to`: {value: other value}")
        return self


class CardSection(Section):
    """How the columns of a file become a Sample. A preset fills it; single keys may override the preset."""

    preset: str | None = Field(default=None, description="shipped card to start from")
    columns: dict[str, str | tuple[str, ...] | None] = Field(
        default_factory=dict,
        description="sample field -> column: prompt, input, history, answer, answer_space, images, videos, task, id, "
        "system, modality, demonstration. `a.b` is b inside the mapping a; of a list the one that the row has; "
        "null: no column",
    )
    make: dict[str, MadeColumn] = Field(
        default_factory=dict, description="columns made of columns, in this order, before any is read; see data.md"
    )
    optional: tuple[str, ...] = Field(
        default=(),
        description="more sample fields whose column a row may lack; all but prompt and answer may be lacking anyway",
    )
    required: tuple[str, ...] = Field(
        default=(), description="sample fields whose column must be in every row, though it may usually be lacking"
    )
    roles: dict[str, str] = Field(
        default_factory=dict, description="a tool's name of a role -> system, user or assistant ({human: user})"
    )
    answer_from_demonstration: bool = Field(
        default=False, description="a row without an answer has its demonstration (the last assistant turn) as answer"
    )
    placeholders: Literal["inline", "leading"] = Field(
        default="inline",
        description="inline: the user's text says where each medium goes; leading: all media come first",
    )
    image_placeholder: str | tuple[str, ...] | None = Field(
        default="<image>",
        description="text that stands for an image, or several such; with {path} in it the text names the image "
        "itself (<img>{path}</img>); null: no such text, images come first",
    )
    video_placeholder: str | tuple[str, ...] | None = Field(
        default="<video>", description="the same for a clip; null: no such text, clips come first"
    )
    geometry_placeholder: str | None = Field(
        default=None, description="text that stands for a box, point or time in a conversation"
    )
    geometry_column: str | None = Field(
        default=None, description="column with the numbers behind the geometry placeholders"
    )
    geometry_medium_column: str | None = Field(
        default=None, description="column with the image (from 0) each of them lies in; null: the row's first medium"
    )
    geometry_kind: Literal["box", "point", "time"] = Field(default="box", description="what the geometry column holds")
    text_placeholder: str | None = Field(
        default=None, description="text that stands for words kept in a column (a thing's name)"
    )
    text_column: str | None = Field(default=None, description="column with the words behind the text placeholders")
    answer_space: str | None = Field(
        default=None, description="original_px, model_px, 0..N or seconds; of boxes by time: original_px at seconds"
    )
    spaces: dict[str, str] = Field(
        default_factory=dict, description="a tool's name of a space in the answer_space column -> ours"
    )
    task: str | None = Field(default=None, description="task of every row, where no column says it")
    modality: str | None = Field(
        default=None, description="budget class of every row; null: image or video by its media"
    )
    robot: RobotSection = Field(default_factory=RobotSection, description="for LeRobot dataset folders")

    @model_serializer(mode="wrap")
    def _keys_beside_a_preset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Beside a preset only the keys that were set are written: a written default would override the preset."""
        values = handler(self)
        return values if self.preset is None else {k: v for k, v in values.items() if k in self.model_fields_set}


class DatasetSection(Section):
    path: str = Field(
        description="file or folder (JSONL, JSON, Parquet, TSV, CSV, Hugging Face dataset folder); `*`: all that fit"
    )
    name: str | None = Field(default=None, description="name in metrics; null: the file's stem")
    card: str | CardSection = Field(default_factory=lambda: CardSection.model_validate({}), description="card or path")
    split: str | None = Field(default=None, description="split of a Hugging Face dataset dictionary")
    select: dict[str, Any] = Field(
        default_factory=dict,
        description="only rows with this value in this column, of the file or made by the card, or one of these values "
        "({split: testA}), or a number in a range ({pass_rate: {min: 0.1, max: 0.9}}); empty: all",
    )
    columns_from: str | None = Field(
        default=None,
        description="JSONL file with `id` and further columns of these rows, as `mmrl rate` writes them; rows that are "
        "not in it have null there",
    )
    root: str | None = Field(
        default=None, description="folder relative media paths start from; null: the data file's folder"
    )
    source_fps: PositiveFloat | None = Field(
        default=None, description="frames per second of clips given as frame files, where their row does not say it"
    )
    weight: PositiveFloat = Field(default=1.0, description="share or odds of this dataset, see `data.mixture`")
    budgets: dict[str, BudgetClass] = Field(default_factory=dict, description="overrides of the run's budgets")
    system_prompt: str | None = Field(
        default=None, description="system turn of rows without one, or a shipped template's; before the data section's"
    )
    user_template: str | None = Field(
        default=None, description="name of a shipped template, text with {prompt}, or Jinja with {{ prompt }}"
    )
    task_templates: dict[str, str] = Field(default_factory=dict, description="user_template per task")
    max_samples: PositiveInt | None = Field(default=None, description="stop after this many good rows")


class DataSection(Section):
    train: tuple[DatasetSection, ...] = Field(default=(), description="datasets to train on")
    val: tuple[DatasetSection, ...] = Field(default=(), description="held-out datasets")
    mixture: Literal["concat", "weights", "shares"] = Field(
        default="concat",
        description="concat: each row once an epoch; weights: drawn by weight; shares: fixed part of each batch",
    )
    shuffle: bool = Field(default=True, description="a new seeded order each epoch; false: file order")
    system_prompt: str | None = Field(
        default=None,
        description="system turn of rows without one: text, or the name of a shipped template that has one",
    )
    user_template: str | None = Field(
        default=None, description="name of a shipped template, text with {prompt}, or Jinja with {{ prompt }}"
    )
    task_templates: dict[str, str] = Field(default_factory=dict, description="user_template per task")
    max_prompt_tokens: PositiveInt = Field(default=8192, description="longest prompt, media tokens included")
    too_long: Literal["error", "skip", "shrink"] = Field(
        default="error",
        description="a prompt above max_prompt_tokens: stop, leave the row out, or lower its pixel budget",
    )
    bad_row: Literal["error", "skip"] = Field(
        default="error", description="a row that cannot become a sample: stop, or leave it out"
    )
    bad_media: Literal["error", "skip"] = Field(
        default="error", description="a picture or clip that is missing or cannot be opened: stop, or leave the row out"
    )
    max_skipped_fraction: Probability = Field(
        default=0.05, description="share of a dataset's rows that may be left out before the run stops"
    )
    round_places: bool = Field(
        default=True,
        description="boxes, points and times of answers are rounded as the model writes them (whole pixels, 0..1000); "
        "false: rewards compare with the exact places, as benchmarks do",
    )
    video: VideoSection = Field(default_factory=VideoSection, description="how clips are opened")
    pdf_dpi: PositiveInt = Field(default=144, description="pixels per inch at which pages of PDFs are drawn")
    allow_urls: bool = Field(
        default=False, description="fetch media named by http(s) URLs, once, into the cache; false: such a row is bad"
    )
    decode_workers: NonNegativeInt = Field(default=0, description="decoder processes; 0: one per core")
    prefetch: NonNegativeInt = Field(
        default=1, description="batches whose media are opened while the present one is learnt from; 0: none"
    )
    pin_memory: bool | None = Field(
        default=None,
        description="pixels read ahead lie in pinned memory, which a GPU reads while it works; null: if there is one",
    )
