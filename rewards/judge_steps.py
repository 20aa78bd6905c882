"""The steps of a thought, or its sentences, each judged by a model.

Formula: `mean`: the share of steps judged right. `prefix`: the share of steps before the first wrong one. Both are 0
where the completion has no answer. Of several `votes` a step has the share that calls it right, and is wrong below one
half.
Bounds: 0 to 1.
Answer: the thought is judged, `<think>..</think>` or all that stands before `<answer>` or the box. Steps are
paragraphs, or (unit `sentence`) sentences; more than `most` are judged in as many equal parts.
Space: none.
Source: `mean` with the format gate is SPARK's process reward, `votes` its self-consistency; by sentence it is TRM's;
`prefix` over sentences, with `source_column`, is the prefix faithfulness of MiniTruePrefixes: supported by that text.
Example: verdicts 1, 1, 0: mean 0.666667; verdicts 1, 0, 1, 1: prefix 0.25; 5, 4 and 1 of 5 votes for three steps: 1,
0.8, 0.2, mean 0.666667, prefix 0.666667.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.judge.endpoint import judge_of, preflight  # noqa: F401 - preflight is this reward's own
from mmrl.scoring.judge.material import Material
from mmrl.scoring.judge.prompts import Asked, ask_about, question_of
from mmrl.scoring.judge.votes import ask_each
from mmrl.scoring.parse import extract_prediction

BOUNDS = (0.0, 1.0)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)")
_PARAGRAPH = re.compile(r"\n\s*\n")


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    endpoint: dict[str, Any],
    form: Literal["mean", "prefix"] = "mean",
    unit: Literal["step", "sentence"] = "step",
    source_column: str | None = None,
    most: int = 40,
    votes: int = 1,
) -> list[dict[str, float] | float | JudgeError | RewardError]:
    """`source_column`: the text that each step must be supported by; None: each must be right by itself.

    `votes`: questions per completion.
    """
    judge = judge_of(endpoint)
    steps = [_steps(completion, unit, most) for completion in completions]

    def questions(completion: str, sample: Sample) -> list[Asked]:
        source = None if source_column is None else sample.columns.get(source_column)
        if source_column is not None and not isinstance(source, str):
            raise RewardError(f"{sample.where}: the column {source_column!r} is {source!r}, not a text")
        parts = _steps(completion, unit, most)
        if not parts:
            return []
        question = question_of(sample, judge.endpoint)
        return [_question(question, parts, source, seed) for seed in range(votes)]

    found = ask_each(judge, each(questions, completions, samples), _verdicts)
    return [
        verdicts if isinstance(verdicts, RewardError) else _result(verdicts, parts, form) if verdicts else 0.0
        for verdicts, parts in zip(found, steps, strict=True)
    ]


def _steps(completion: str, unit: str, most: int) -> list[str]:
    """The steps of a thought; none where the completion has no answer."""
    if extract_prediction(completion) is None:
        return []
    thought = completion.rpartition("</think>")[0] or re.split(r"<answer>|\\boxed\{", completion)[0]
    pieces = (_SENTENCE if unit == "sentence" else _PARAGRAPH).split(thought.replace("<think>", "").strip())
    pieces = [piece.strip() for piece in pieces if piece.strip()]
    if len(pieces) <= most:
        return pieces
    bounds = [round(len(pieces) * part / most) for part in range(most + 1)]
    return ["\n".join(pieces[low:high]) for low, high in pairwise(bounds)]


def _question(question: Material, steps: Sequence[str], source: str | None, seed: int) -> Asked:
    task = "Decide for each numbered step of a solution whether it is right, given the steps before it: 1 or 0."
    if source is not None:
        task = "Decide for each numbered step whether the source supports all that it states: 1 or 0."
    material = {"the question": question} | ({} if source is None else {"the source": source})
    material["the steps"] = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
    form = '{"right": [' + ", ".join("1" for _ in steps) + "]}"
    return ask_about(task, material, form=form, seed=seed)


def _verdicts(verdict: Any) -> list[float]:
    right = verdict.get("right") if isinstance(verdict, dict) else None
    if not isinstance(right, list) or any(value not in (0, 1) for value in right):
        raise JudgeError(f"the verdict {verdict!r:.100} has no list of 0 and 1")
    return [float(value) for value in right]


def _result(
    votes: Sequence[list[float] | JudgeError], steps: Sequence[str], form: str
) -> dict[str, float] | JudgeError:
    known: list[list[float]] = []
    for verdicts in votes:
        if isinstance(verdicts, JudgeError):
            return verdicts
        if len(verdicts) != len(steps):
            return JudgeError(f"the judge gave {len(verdicts)} verdicts for {len(steps)} steps")
        known.append(verdicts)
    right = [sum(of_step) / len(known) for of_step in zip(*known, strict=True)]
    first_wrong = next((i for i, share in enumerate(right) if share < 0.5), len(right))
    shares = {"mean": sum(right) / len(right), "prefix": first_wrong / len(right)}
    return {"reward": shares[form], "steps": float(len(steps)), **shares}
