"""A rubric or checklist, each criterion checked by a judge model.

Formula: (sum of w_j c_j - sum of |w_f| c_f) / sum of w_j, cut off at 0 and 1; j criteria of positive weight, f faults
(negative weight), c 1 where the judge finds it met, the share of `votes` for it; with `scale` the judge's number of 0
to `scale`, divided by it. A failed veto gives 0. With `saturation` below 1 a group of criteria counts as whole from
that share of its weight on.
Bounds: 0 to 1.
Answer: any text; the judge sees the question and the answer of the completion (after the thought). The criteria are
the option `rubric` or the column `column` of the row: texts, or {text, weight, veto, group}; a weight is a number or
essential 1, important 0.7, optional 0.3, pitfall 0.9.
Space: none.
Source: Rubrics as Rewards (explicit form); CM2's checklists are weights of 1; veto and saturation after Rubicon; votes
after Autorubric's ensembles; `scale` after MIA-Bench, whose judge shares out each component's weight.
Example: weights 1, 1, 0.7, 0.3, 0.9 with verdicts 1, 0, 1, 1, 0: 0.512821. Weights 6, 4, scale 10, verdicts 5, 10: 0.7.
"""

import functools
from collections.abc import Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, JudgeError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.judge.endpoint import judge_of
from mmrl.scoring.judge.endpoint import preflight as check_endpoint
from mmrl.scoring.judge.material import Material
from mmrl.scoring.judge.prompts import Asked, ask_about, question_of
from mmrl.scoring.judge.rubric import Criterion, read_criteria, rubric_score
from mmrl.scoring.judge.votes import ask_each, said

BOUNDS = (0.0, 1.0)


def preflight(options: dict[str, Any], timeout_s: float) -> None:
    if options["rubric"] is not None:
        try:
            read_criteria(options["rubric"])
        except ValueError as error:
            raise ConfigError(f"option 'rubric': {error}") from error
    check_endpoint(options, timeout_s)


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    endpoint: dict[str, Any],
    rubric: list[Any] | None = None,
    column: str = "rubric",
    votes: int = 1,
    saturation: float = 1.0,
    scale: float | None = None,
) -> list[dict[str, float] | JudgeError | RewardError]:
    """`rubric`: the criteria of every row; None: each row's own. `scale`: the best verdict on a criterion, of 0 to
    this; None: verdicts are 0 or 1. Returns the share of criteria that are met too.
    """
    judge = judge_of(endpoint)

    def questions(completion: str, sample: Sample) -> list[Asked]:
        criteria = _criteria(sample, rubric, column)
        asked = question_of(sample, judge.endpoint)
        return [_question(completion, asked, criteria, seed, scale) for seed in range(votes)]

    found = ask_each(judge, each(questions, completions, samples), functools.partial(_verdicts, scale=scale))
    return [
        verdicts
        if isinstance(verdicts, RewardError)
        else _result(_criteria(sample, rubric, column), verdicts, saturation)
        for sample, verdicts in zip(samples, found, strict=True)
    ]


def _criteria(sample: Sample, rubric: Any, column: str) -> tuple[Criterion, ...]:
    try:
        return read_criteria(sample.columns.get(column) if rubric is None else rubric)
    except ValueError as error:
        raise RewardError(f"{sample.where}: the column {column!r}: {error}") from error


def _question(
    completion: str, question: Material, criteria: Sequence[Criterion], seed: int, scale: float | None
) -> Asked:
    how = (
        "whether the response meets it: 1 if it clearly does, else 0."
        if scale is None
        else f"how far the response meets it, strictly: {scale:g} if it fully does, 0 if not at all."
    )
    task = f"Decide for each numbered criterion {how} Judge each criterion by itself and by its own words."
    listed = "\n".join(f"{number}. {criterion.text}" for number, criterion in enumerate(criteria, start=1))
    material = {"the question": question, "the criteria": listed, "the response": said(completion)}
    examples = ("0", f"{scale or 1:g}")
    form = '{"met": [' + ", ".join(examples[n % 2] for n in range(len(criteria))) + "]}"
    return ask_about(task, material, form=form, seed=seed)


def _verdicts(verdict: Any, *, scale: float | None) -> list[float]:
    met = verdict.get("met") if isinstance(verdict, dict) else None
    if scale is None:
        if not isinstance(met, list) or any(value not in (0, 1) for value in met):
            raise JudgeError(f"the verdict {verdict!r:.100} has no list of 0 and 1")
        return [float(value) for value in met]
    if not isinstance(met, list) or not all(_is_number(value) and 0 <= value <= scale for value in met):
        raise JudgeError(f"the verdict {verdict!r:.100} has no list of numbers of 0 to {scale:g}")
    return [value / scale for value in met]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _result(
    criteria: Sequence[Criterion], found: Sequence[list[float] | JudgeError], saturation: float
) -> dict[str, float] | JudgeError:
    known: list[list[float]] = []
    for verdicts in found:
        if isinstance(verdicts, JudgeError):
            return verdicts
        if len(verdicts) != len(criteria):
            return JudgeError(f"the judge gave {len(verdicts)} verdicts for {len(criteria)} criteria")
        known.append(verdicts)
    met = [sum(votes) / len(known) for votes in zip(*known, strict=True)]
    return {"reward": rubric_score(criteria, met, saturation=saturation), "met": sum(met) / len(met)}
