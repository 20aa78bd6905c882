"""Judges of benchmarks: what a task file says of one, and where it answers, which no task file says."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from mmrl.config.reward_sections import RewardPart
from mmrl.config.section import Count, NonEmptyText, NonNegativeFloat, PositiveFloat, PositiveInt, Section

# What a score is called that a rule gave where the task file names a judge.
WITHOUT_JUDGE = "score_without_judge"


class JudgeSection(Section):
    """The judge of a benchmark. What it is asked is said by the options of the parts of `score` that ask one."""

    model: NonEmptyText = Field(description="as its server names it; a server that answers as another one is refused")
    version: PositiveInt = Field(
        default=1, description="raised with every change that moves verdicts; verdicts are kept by model and version"
    )
    temperature: NonNegativeFloat = Field(default=0.0, description="of its answers")
    max_tokens: PositiveInt = Field(default=1024, description="longest answer, a thought included")
    extra: dict[str, Any] = Field(
        default_factory=dict, description="further fields of requests, such as chat_template_kwargs"
    )
    show_media: bool = Field(default=False, description="whether it sees the row's pictures and clips")
    without: tuple[RewardPart, ...] | dict[str, tuple[RewardPart, ...]] | None = Field(
        default=None,
        description=f"with --no-judge, in place of `score`: rules, whose score is called {WITHOUT_JUDGE}; null: no "
        "rule can take the judge's place, and --no-judge is refused",
    )


class JudgeServerSection(Section):
    """Where the judge of benchmarks answers."""

    url: NonEmptyText = Field(description="OpenAI-compatible, up to /v1")
    model: NonEmptyText | None = Field(
        default=None, description="another judge than the task files name; scores are then not theirs, and say so"
    )
    api_key_env: str | None = Field(default=None, description="environment variable with the key, if any")
    timeout_s: PositiveFloat = Field(default=120.0, description="longest time of one request")
    retries: int = Field(default=3, ge=0, description="after the first try")
    concurrency: Count = Field(default=16, description="requests under way together, of each scoring process")
