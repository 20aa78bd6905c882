"""Written constraints on an answer, each met by rule where the row names one, else by a judge model.

Formula: the share of the row's constraints that the answer meets; an answer that says nothing meets none.
Bounds: 0 to 1.
Answer: any text; what stands after the thought counts. The constraints are the column `column` of the row: a list of
`{text, checks}`, `checks` a list of `{check, arguments}` of `mmrl.scoring.response_checks`, of which all must hold; the
judge decides on those without checks, all of a row in one question.
Space: none.
Source: MM-IFEval's questions of constraints (C-Level).
Example: no `!` (by rule) met, a formal tone (by the judge) not: 0.5. No readable verdict: unscored, counted as
`judge_failed`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError, RewardError, did_you_mean
from mmrl.scoring.batch import each
from mmrl.scoring.gold import bad_column
from mmrl.scoring.judge.endpoint import judge_of, preflight  # noqa: F401 - preflight is this reward's own
from mmrl.scoring.judge.prompts import Asked, ask_about, question_of
from mmrl.scoring.judge.votes import ask_each, said
from mmrl.scoring.response_checks import CHECKS, meets

BOUNDS = (0.0, 1.0)
TASK = (
    "Decide for each numbered constraint whether the response fully meets it: 1 if it does, else 0. Be strict, and"
    " judge each constraint by itself."
)


def score_batch(
    completions: Sequence[str], samples: Sequence[Sample], *, endpoint: dict[str, Any], column: str = "constraints"
) -> list[float | JudgeError | RewardError]:
    judge = judge_of(endpoint)

    def questions(completion: str, sample: Sample) -> list[Asked]:
        texts = [constraint["text"] for constraint in _constraints(sample, column) if not constraint.get("checks")]
        text = said(completion)
        _by_rule(text, sample, column)
        if not (texts and text):
            return []
        listed = "\n".join(f"{number}. {constraint}" for number, constraint in enumerate(texts, start=1))
        material = {
            "the question": question_of(sample, judge.endpoint),
            "the constraints": listed,
            "the response": text,
        }
        form = '{"met": [' + ", ".join("01"[n % 2] for n in range(len(texts))) + "]}"
        return [ask_about(TASK, material, form=form)]

    found = ask_each(judge, each(questions, completions, samples), _verdicts)
    return [
        several if isinstance(several, RewardError) else _share(completion, sample, column, several)
        for completion, sample, several in zip(completions, samples, found, strict=True)
    ]


def _share(
    completion: str, sample: Sample, column: str, several: Sequence[list[float] | JudgeError]
) -> float | JudgeError:
    text = said(completion)
    if not text:
        return 0.0
    by_rule = _by_rule(text, sample, column)
    judged = next(iter(several), [])
    if isinstance(judged, JudgeError):
        return judged
    count = len(_constraints(sample, column))
    if len(by_rule) + len(judged) != count:
        return JudgeError(f"the judge gave {len(judged)} verdicts for {count - len(by_rule)} constraints")
    return (sum(by_rule) + sum(judged)) / count


def _constraints(sample: Sample, column: str) -> Sequence[Mapping[str, Any]]:
    found = sample.columns.get(column)
    if not isinstance(found, list) or not found or not all(isinstance(of, Mapping) and "text" in of for of in found):
        raise bad_column(sample, column, wanted="a list of constraints {text, checks}")
    return found


def _by_rule(text: str, sample: Sample, column: str) -> list[bool]:
    """Of each constraint that has checks whether all hold."""
    return [
        all(_holds(text, check, sample) for check in constraint["checks"])
        for constraint in _constraints(sample, column)
        if constraint.get("checks")
    ]


def _holds(text: str, check: Mapping[str, Any], sample: Sample) -> bool:
    name, arguments = str(check["check"]), check.get("arguments") or []
    if name not in CHECKS:
        raise RewardError(f"{sample.where}: unknown check {name!r}{did_you_mean(name, CHECKS)}")
    try:
        return meets(name, text, *arguments)
    except (TypeError, ValueError, AttributeError) as error:
        raise RewardError(f"{sample.where}: check {name!r} with {arguments}: {error}") from error


def _verdicts(verdict: Any) -> list[float]:
    met = verdict.get("met") if isinstance(verdict, dict) else None
    if not isinstance(met, list) or any(value not in (0, 1) for value in met):
        raise JudgeError(f"the verdict {verdict!r:.100} has no list of 0 and 1")
    return [float(value) for value in met]
