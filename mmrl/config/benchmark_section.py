"""A benchmark's task file: a dataset, how its answers are scored, and what its published numbers were made with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mmrl.config.data_sections import DatasetSection
from mmrl.config.reward_sections import RewardPart
from mmrl.config.section import Count, NonNegativeFloat, PositiveFloat, PositiveInt, Probability, Section


class AnswerSection(Section):
    """How answers are drawn. The command line may change it, and the result then says so."""

    max_new_tokens: PositiveInt = Field(default=128, description="longest answer")
    temperature: NonNegativeFloat = Field(default=0.0, description="0: greedy")
    top_p: Probability = Field(default=1.0, description="as rollout.top_p")
    top_k: int = Field(default=0, ge=0, description="as rollout.top_k")
    repeats: Count = Field(default=1, description="answers to each question; several need a temperature above 0")
    stop: tuple[str, ...] = Field(default=(), description="texts that end an answer")


class ExpectSection(Section):
    """What must hold of the files before anything is generated."""

    rows: PositiveInt | None = Field(default=None, description="rows that `data.select` leaves of the files")
    columns: tuple[str, ...] = Field(default=(), description="columns that every row has, beside those of the card")


class ProvenanceSection(Section):
    """Where the task file's facts are from."""

    source: str = Field(description="where the files are published")
    layout: Literal["verified", "unverified"] = Field(
        default="unverified", description="verified: read from the published files themselves"
    )
    read_from: str = Field(default="", description="where the layout was read")
    notes: str = Field(default="", description="what differs from the published protocol")
    official: dict[str, PositiveFloat] = Field(default_factory=dict, description="published scores by model")


class AverageSection(Section):
    """How the scores of rows become the benchmark's. Columns are those of the rows."""

    groups: str | tuple[str, ...] = Field(
        default=(),
        description="the mean over the means of this column's values; of several, the coarsest first: [category, task] "
        "is the mean over categories of the mean over their tasks",
    )
    all_of: str | tuple[str, ...] = Field(
        default=(), description="rows with the same values of these columns are one, worth what the worst of them is"
    )

    shares: str | None = Field(
        default=None,
        description="column that maps names to counts ({tables: 6, baseline: 1}): the mean over the names of what all "
        "rows' values of this name are worth together, each counted so often; the first part returns them by name",
    )

    @property
    def group_columns(self) -> tuple[str, ...]:
        return (self.groups,) if isinstance(self.groups, str) else self.groups

    @property
    def all_of_columns(self) -> tuple[str, ...]:
        return (self.all_of,) if isinstance(self.all_of, str) else self.all_of


class BenchmarkSection(Section):
    """One task file: datasets/benchmarks/<name>.yaml. Its paths start from the folder of benchmarks (--root)."""

    version: PositiveInt = Field(default=1, description="raised with every change that moves a score")
    data: DatasetSection = Field(description="files, card, budgets and template, as in a training configuration")
    max_prompt_tokens: PositiveInt = Field(default=32768, description="longest prompt, media tokens included")
    score: tuple[RewardPart, ...] | dict[str, tuple[RewardPart, ...]] = Field(
        description="what an answer is worth, as in rewards.tasks; or, by the value of the card's task column, what "
        "answers to rows of this kind are"
    )
    answers: AnswerSection = Field(default_factory=AnswerSection, description="how answers are drawn")
    report: tuple[str, ...] = Field(default=(), description="columns by whose values scores are reported, too")
    average: Literal["rows"] | AverageSection = Field(
        default="rows", description="the score: mean over rows, or by `groups` and `all_of`, or by `shares`"
    )
    cluster: str | None = Field(
        default=None,
        description="column of rows that belong together, for the interval; `media`: those of one clip or picture",
    )
    expect: ExpectSection = Field(default_factory=ExpectSection, description="checked before anything is generated")
    provenance: ProvenanceSection = Field(description="where the facts of this file are from")
