"""Whether a judge model finds an answer right, by rules that are written out.

Formula: the judge's verdict, 0 or 1; with `scale` a number of 0 to `scale`, divided by it.
Bounds: 0 to 1.
Answer: by `answer` the tag, the box or the text after the thought; the judge sees it, the question and the dataset's
answer. Where there is none the judge is not asked: 0.
Space: none.
Source: the judges of MathVerse, MMVU, ChartMuseum and CharXiv (0 or 1), MM-Vet (0 to 1), DriveLM (0 to 100). Theirs see
the answer among their own instructions; here it stands between marks, as with every judge.
Example: verdict 1: 1; scale 100 and verdict 62: 0.62. No readable verdict: unscored, counted as `judge_failed`.
"""

from collections.abc import Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.gold import bad_column, gold_texts
from mmrl.scoring.judge.endpoint import ChatClient, judge_of, preflight  # noqa: F401 - preflight is this reward's own
from mmrl.scoring.judge.material import Material
from mmrl.scoring.judge.prompts import Asked, ask_about, question_of
from mmrl.scoring.judge.votes import ask_each
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    endpoint: dict[str, Any],
    prompt: str,
    answer: AnswerFormat = "plain",
    question_column: str | None = None,
    scale: float | None = None,
) -> list[float | JudgeError | RewardError]:
    """`prompt`: when the response is right. `question_column`: what the judge sees as the question; None: the last
    question of the row. `scale`: the best verdict, of 0 to this; None: verdicts are 0 or 1.
    """
    judge = judge_of(endpoint)
    form = '{"correct": 1}' if scale is None else f'{{"score": {scale / 2:g}}}'

    def questions(completion: str, sample: Sample) -> list[Asked]:
        said = extract_prediction(completion, answer=answer)
        if not said:
            return []
        material = {
            "the question": _question(sample, question_column, judge),
            "the correct answer": " / ".join(gold_texts(sample)),
            "the response": said,
        }
        return [ask_about(prompt, material, form=form)]

    def read(verdict: Any) -> float:
        return _correct(verdict) if scale is None else _share(verdict, scale)

    found = ask_each(judge, each(questions, completions, samples), read)
    return [of if isinstance(of, RewardError) else next(iter(of), 0.0) for of in found]


def _question(sample: Sample, column: str | None, judge: ChatClient) -> Material:
    if column is None:
        return question_of(sample, judge.endpoint)
    if not isinstance(text := sample.columns.get(column), str):
        raise bad_column(sample, column, wanted="the question as a text")
    return text


def _correct(verdict: Any) -> float:
    value = verdict.get("correct") if isinstance(verdict, dict) else None
    if value not in (0, 1):
        raise JudgeError(f"the verdict {verdict!r:.100} has no 'correct' of 0 or 1")
    return float(value)


def _share(verdict: Any, scale: float) -> float:
    value = verdict.get("score") if isinstance(verdict, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= scale:
        raise JudgeError(f"the verdict {verdict!r:.100} has no score of 0 to {scale:g}")
    return value / scale
