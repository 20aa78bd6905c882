"""Options of `mmrl evaluate` alone."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Repeats = Annotated[int | None, typer.Option(min=1, help="Answers to each question.")]
Temperature = Annotated[float | None, typer.Option(min=0.0, help="0: greedy. Default: the task file's.")]
LongestAnswer = Annotated[int | None, typer.Option(min=1, help="Longest answer.")]
OptionOrder = Annotated[
    str | None,
    typer.Option(help="Of multiple choice: written, circular or shuffle:SEED. Default: the task file's."),
]
PromptVariant = Annotated[
    str | None, typer.Option(help="Of the task files, or `default`. Default: the one for the model.")
]
Deadline = Annotated[float, typer.Option(min=0.1, help="Seconds for a question; then it has failed.")]
CacheLevel = Annotated[
    Literal["auto", "features", "pixels"],
    typer.Option(help="auto: cached features of this model are read, none are made; features: also made."),
]
Rescore = Annotated[bool, typer.Option("--rescore", help="Score stored answers; no model is loaded.")]
PredictOnly = Annotated[
    bool, typer.Option("--predict-only", help="Store answers, score nothing: for splits without answers.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Exit code 1 where a question failed or the judge gave no verdict.")
]
JudgeServer = Annotated[str | None, typer.Option(help="Server of the judge that task files name, up to /v1.")]
JudgeTokenEnv = Annotated[str | None, typer.Option(help="Environment variable of the judge's token.")]
JudgeModel = Annotated[str | None, typer.Option(help="Another judge than the task files name.")]
JudgeTimeout = Annotated[float, typer.Option(min=0.1, help="Seconds for one request to the judge.")]
NoJudge = Annotated[
    bool, typer.Option("--no-judge", help="Score by rule where a task file names a judge: score_without_judge.")
]
