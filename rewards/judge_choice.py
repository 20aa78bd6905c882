"""Whether a judge model finds the right option of a question in what the answer says.

Formula: 1 if the letter that the judge picks by the response alone is the dataset's, else 0, also where it picks none.
Bounds: 0 or 1.
Answer: any text, such as a description; the judge sees the answer of the completion (after the thought) and, from the
column `question_column`, the question with its options, not the right one. The dataset's answer begins with a letter.
Where the completion says nothing the judge is not asked: 0.
Space: none.
Source: TempCompass's captioning task.
Example: answer `B. counter-clockwise`, the judge picks B: 1, C or none: 0. No readable verdict: unscored, counted as
`judge_failed`.
"""

import re
from collections.abc import Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.gold import bad_answer, bad_column
from mmrl.scoring.judge.endpoint import judge_of, preflight  # noqa: F401 - preflight is this reward's own
from mmrl.scoring.judge.prompts import Asked, ask_about
from mmrl.scoring.judge.votes import ask_each, said

BOUNDS = (0.0, 1.0)
TASK = (
    "Answer a multiple-choice question by what a response says, and by nothing else: you have not seen what it is"
    " about. Give the letter of the option that the response supports, or null where it supports none, or says too"
    " little to choose."
)
_LETTER = re.compile(r"\(?([A-Z])(?![A-Za-z])")


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    endpoint: dict[str, Any],
    question_column: str,
) -> list[float | JudgeError | RewardError]:
    """`question_column`: holds the question with its options, a letter before each."""
    judge = judge_of(endpoint)

    def questions(completion: str, sample: Sample) -> list[Asked]:
        _right_letter(sample)
        question, text = sample.columns.get(question_column), said(completion)
        if not isinstance(question, str):
            raise bad_column(sample, question_column, wanted="the question as a text")
        if not text:
            return []
        return [ask_about(TASK, {"the question": question, "the response": text}, form='{"choice": "A"}')]

    found = ask_each(judge, each(questions, completions, samples), _choice)
    return [
        several if isinstance(several, RewardError) else _worth(several, sample)
        for several, sample in zip(found, samples, strict=True)
    ]


def _worth(several: Sequence[str | JudgeError], sample: Sample) -> float | JudgeError:
    picked = next(iter(several), "")
    return picked if isinstance(picked, JudgeError) else float(picked == _right_letter(sample))


def _right_letter(sample: Sample) -> str:
    match = _LETTER.match(sample.answer) if isinstance(sample.answer, str) else None
    if match is None:
        raise bad_answer(sample, wanted="a text that begins with the right option's letter")
    return match[1]


def _choice(verdict: Any) -> str:
    """The letter, or nothing."""
    if isinstance(verdict, dict) and "choice" in verdict:
        value = verdict["choice"]
        if value is None:
            return ""
        if isinstance(value, str) and (match := _LETTER.match(value.strip().upper())):
            return match[1]
    raise JudgeError(f"the verdict {verdict!r:.100} has no 'choice' of a letter or null")
