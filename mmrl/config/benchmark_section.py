"""A benchmark's task file: a dataset, how its answers are scored, and what its published numbers were made with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from mmrl.config.data_sections import DatasetSection
from mmrl.config.judge_section import JudgeSection
from mmrl.config.reward_sections import RewardPart
from mmrl.config.section import (
    BudgetClass,
    Count,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Probability,
    Section,
)

CorpusMeasure = Literal["captions"]

# The column that rows have in circular mode: the id of the question that they are a rotation of.
ROTATION_OF = "rotation_of"


class AnswerSection(Section):
    """How answers are drawn. The command line may change it, and the result then says so."""

    max_new_tokens: PositiveInt = Field(default=128, description="longest answer")
    temperature: NonNegativeFloat = Field(default=0.0, description="0: greedy")
    top_p: Probability = Field(default=1.0, description="as rollout.top_p")
    top_k: int = Field(default=0, ge=0, description="as rollout.top_k")
    repeats: Count = Field(
        default=1, description="answers to each question; several need a temperature above 0 and give pass@k"
    )
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
    names: str | tuple[str, ...] = Field(default=(), description="of shares: only these names; empty: all")
    only: dict[str, Any] = Field(
        default_factory=dict,
        description="under `also`: only rows with this value in this column, or one of these, as data.select has it",
    )
    part: str | None = Field(default=None, description="under `also`: this part of the score in its place, by name")
    answered: bool = Field(
        default=False,
        description="under `also`: without the rows that failed, were not scored or have an empty answer, as harnesses "
        "do that leave them out of their denominator",
    )
    corpus: CorpusMeasure | None = Field(
        default=None,
        description="a score of all answers together, beside the dataset's texts: captions: the mean of mean BLEU-1 to "
        "4, ROUGE-L and CIDEr / 10; goes with `only` alone",
    )
    mean_of: tuple[str, ...] | dict[str, PositiveFloat] = Field(
        default=(),
        description="the mean of these entries of `also`, or {entry: weight}; those without a row do not count; stands "
        "alone",
    )

    @model_validator(mode="after")
    def _keys_agree(self) -> Self:
        if self.mean_of and self.model_fields_set - {"mean_of"}:
            raise ValueError("`mean_of` stands alone: what it means is said by the entries of `also`")
        if self.names and self.shares is None:
            raise ValueError("`names` belongs to `shares`")
        if self.shares is not None and (self.groups or self.all_of or self.part):
            raise ValueError("`shares` goes with `names` and `only` alone")
        if self.corpus is not None and (self.groups or self.all_of or self.part or self.shares):
            raise ValueError("`corpus` goes with `only` alone")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it reads of the rows."""
        named = (*self.group_columns, *self.all_of_columns, *self.only, self.shares)
        return tuple(name for name in named if name is not None)

    @property
    def weights(self) -> dict[str, float]:
        """Of the entries that it is the mean of."""
        return self.mean_of if isinstance(self.mean_of, dict) else dict.fromkeys(self.mean_of, 1.0)

    @property
    def share_names(self) -> tuple[str, ...]:
        return (self.names,) if isinstance(self.names, str) else self.names

    @property
    def group_columns(self) -> tuple[str, ...]:
        return (self.groups,) if isinstance(self.groups, str) else self.groups

    @property
    def all_of_columns(self) -> tuple[str, ...]:
        return (self.all_of,) if isinstance(self.all_of, str) else self.all_of


class ShuffleSection(Section):
    """The options of every row in an order drawn from this seed and the row's id."""

    shuffle: NonNegativeInt = Field(description="seed of the order")


class VariantSection(Section):
    """What models of a family, or in a mode, are asked with in place of the task file's own; null, empty: no change."""

    system_prompt: str | None = Field(default=None, description="in place of data.system_prompt")
    user_template: str | None = Field(
        default=None, description="in place of data.user_template and of all data.task_templates"
    )
    task_templates: dict[str, str] = Field(default_factory=dict, description="over data.task_templates, by task")
    budgets: dict[str, BudgetClass] = Field(default_factory=dict, description="over data.budgets, by class")
    answers: AnswerSection = Field(
        default_factory=AnswerSection, description="the keys that are set, in place of the same ones of `answers`"
    )


class BenchmarkSection(Section):
    """One task file: datasets/benchmarks/<name>.yaml. Its paths start from the folder of benchmarks (--root)."""

    version: PositiveInt = Field(default=1, description="raised with every change that moves a score")
    data: DatasetSection = Field(description="files, card, budgets and template, as in a training configuration")
    max_prompt_tokens: PositiveInt = Field(default=32768, description="longest prompt, media tokens included")
    score: tuple[RewardPart, ...] | dict[str, tuple[RewardPart, ...]] = Field(
        description="what an answer is worth, as in rewards.tasks; or, by the value of the card's task column, what "
        "answers to rows of this kind are"
    )
    judge: JudgeSection | None = Field(
        default=None, description="the model that judges answers, where parts of `score` ask one (docs/evaluate.md)"
    )
    answers: AnswerSection = Field(default_factory=AnswerSection, description="how answers are drawn")
    variants: dict[str, VariantSection] = Field(
        default_factory=dict,
        description="by model family (qwen3_vl), `thinking` or both (qwen3_vl_thinking): what such models are asked "
        "with instead; the most specific one is taken, --variant names another",
    )
    options: Literal["written", "circular"] | ShuffleSection = Field(
        default="written",
        description="of multiple choice: {shuffle: SEED}: in another order; circular: the question is asked in every "
        "rotation of its options, and right only if all answers are",
    )
    reasoning: str | None = Field(
        default=None,
        description="name of the part of `score` that says whether an answer's reasoning is right (from 0.5 on); "
        "CoT-pass@k counts right answers that are reached so",
    )
    report: tuple[str, ...] = Field(default=(), description="columns by whose values scores are reported, too")
    average: Literal["rows"] | AverageSection = Field(
        default="rows", description="the score: mean over rows, or by `groups` and `all_of`, or by `shares`"
    )
    also: dict[str, Literal["rows"] | AverageSection] = Field(
        default_factory=dict, description="more scores of the same answers, by name, each averaged in its own way"
    )
    cluster: str | None = Field(
        default=None,
        description="column of rows that belong together, for the interval; `media`: those of one clip or picture",
    )
    expect: ExpectSection = Field(default_factory=ExpectSection, description="checked before anything is generated")
    provenance: ProvenanceSection = Field(description="where the facts of this file are from")

    @model_validator(mode="after")
    def _averages_agree(self) -> Self:
        if self.how.part is not None or self.how.only or self.how.answered:
            raise ValueError(
                "average: the score is of all rows and parts; `only`, `part` and `answered` belong under `also`"
            )
        for name, average in self.averages():
            for other in average.mean_of:
                self._check_meant(name, other)
        return self

    def _check_meant(self, name: str, other: str) -> None:
        """ValueError for an entry of `also` that a mean cannot be of."""
        how = as_average(self.also[other]) if other in self.also else None
        if how is None or how.mean_of:
            known = ", ".join(self.also) or "none"
            raise ValueError(f"{name}.mean_of: {other!r} is no entry of `also` over rows; there: {known}")
        if how.all_of and self.cluster is None:
            raise ValueError(f"{name}.mean_of: {other!r} has `all_of`; name the `cluster` that its rows lie in")

    @property
    def how(self) -> AverageSection:
        """How the score is made."""
        return self._with_rotations_as_one(as_average(self.average))

    def averages(self) -> Iterator[tuple[str, AverageSection]]:
        """All, by the key that says them."""
        yield "average", self.how
        for name, average in self.also.items():
            yield f"also.{name}", self._with_rotations_as_one(as_average(average))

    def _with_rotations_as_one(self, average: AverageSection) -> AverageSection:
        """In circular mode. What a task file makes one itself holds all rotations of its rows anyway."""
        alone = self.options != "circular" or average.all_of_columns or average.mean_of
        return average if alone else average.model_copy(update={"all_of": ROTATION_OF})


def as_average(said: Literal["rows"] | AverageSection) -> AverageSection:
    return AverageSection() if said == "rows" else said
