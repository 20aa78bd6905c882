"""A critique by a judge model, then scores of several dimensions.

Formula: mean over the dimensions of (s - 1) / 9 (weighted by `weights`), each s of 1 to 10 given after a written
critique.
Bounds: 0 to 1.
Answer: any text; the judge sees the question, the answer of the completion (after the thought), and, with
`reference`, the dataset's answer.
Space: none.
Source: the critique-then-score form of RationalRewards; its own dimensions are those of pictures.
Example: dimensions scored 10, 7, 4: 0.666667.
"""

from collections.abc import Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.gold import gold_texts
from mmrl.scoring.judge.endpoint import judge_of, preflight  # noqa: F401 - preflight is this reward's own
from mmrl.scoring.judge.prompts import Asked, ask_about, question_of
from mmrl.scoring.judge.votes import ask_each, said

BOUNDS = (0.0, 1.0)

DIMENSIONS = ("correctness", "grounding in what is shown", "completeness", "clarity")


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    endpoint: dict[str, Any],
    dimensions: list[str] | None = None,
    weights: list[float] | None = None,
    reference: bool = True,
) -> list[dict[str, float] | JudgeError | RewardError]:
    """`dimensions`: what is scored, and `weights` of each. `reference`: whether the judge sees the dataset's answer."""
    names = list(DIMENSIONS) if dimensions is None else dimensions
    shares = [1.0] * len(names) if weights is None else weights
    task = (
        "Write a critique of a response: for each dimension what is right and what is wrong, with quotes. Only then"
        f" score each dimension from 1 to 10. Dimensions: {', '.join(names)}."
    )
    form = "{" + ", ".join(f'"{name}": 5' for name in names) + "}"
    judge = judge_of(endpoint)

    def questions(completion: str, sample: Sample) -> list[Asked]:
        material = {"the question": question_of(sample, judge.endpoint), "the response": said(completion)}
        if reference:
            material["the reference answer"] = " / ".join(gold_texts(sample))
        return [ask_about(task, material, form=form)]

    def read(verdict: Any) -> dict[str, float]:
        scores = {name: verdict.get(name) if isinstance(verdict, dict) else None for name in names}
        for name, score in scores.items():
            if isinstance(score, bool) or not isinstance(score, int | float) or not 1 <= score <= 10:
                raise JudgeError(f"the verdict {verdict!r:.100} has no score of 1 to 10 for {name!r}")
        scaled = {name: (score - 1) / 9 for name, score in scores.items() if score is not None}
        mean = sum(w * s for w, s in zip(shares, scaled.values(), strict=True)) / sum(shares)
        return {"reward": mean, **scaled}

    found = ask_each(judge, each(questions, completions, samples), read)
    return [verdicts if isinstance(verdicts, RewardError) else verdicts[0] for verdicts in found]
