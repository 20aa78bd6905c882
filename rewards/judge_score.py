"""One score by a judge model.

Formula: (s - low) / (high - low), s the judge's score on the scale `low` to `high`, 1 to 10 by default; the mean over
`votes` questions with different seeds.
Bounds: 0 to 1.
Answer: any text; the judge sees the question, the answer of the completion (after the thought), and, with
`reference`, the dataset's answer; with `history` also what was said before the question.
Space: none.
Source: the LLM judge of Vero, (s - 1) / 9; the implicit form of Rubrics as Rewards; `history` as MM-MT-Bench's judge.
Example: 7 of 1 to 10: 0.666667. No readable verdict: unscored, counted as `judge_failed`.
"""

from collections.abc import Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.judge.endpoint import judge_of, preflight  # noqa: F401 - preflight is this reward's own
from mmrl.scoring.judge.material import Material
from mmrl.scoring.judge.prompts import Asked, ask_about, conversation_before, question_of
from mmrl.scoring.judge.votes import ask_all, said

BOUNDS = (0.0, 1.0)

CRITERIA = "correctness, completeness and clarity of the response as an answer to the question"


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    endpoint: dict[str, Any],
    criteria: str = CRITERIA,
    low: float = 1,
    high: float = 10,
    reference: bool = True,
    history: bool = False,
    votes: int = 1,
) -> list[float | JudgeError | RewardError]:
    """`criteria`: what is judged. `reference`: whether the judge sees the dataset's answer. `history`: whether it sees
    the conversation before the last question. `votes`: questions each.
    """
    task = f"Rate a response by {criteria}. {low:g} is worthless, {high:g} is perfect."
    judge = judge_of(endpoint)

    def questions(completion: str, sample: Sample) -> list[Asked]:
        material: dict[str, Material] = {
            "the question": question_of(sample, judge.endpoint),
            "the response": said(completion),
        }
        if history and (before := conversation_before(sample)):
            material = {"the conversation before": before, **material}
        if reference:
            material["the reference answer"] = " / ".join(gold_texts(sample))
        return [ask_about(task, material, form='{"score": 5}', seed=seed) for seed in range(votes)]

    def read(verdict: Any) -> float:
        value = verdict.get("score") if isinstance(verdict, dict) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise JudgeError(f"the verdict {verdict!r:.100} has no score of {low:g} to {high:g}")
        return (value - low) / (high - low)

    return ask_all(judge, each(questions, completions, samples), read)
