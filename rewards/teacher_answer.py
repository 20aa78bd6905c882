"""Agreement with what a teacher model answers to the same question, where a dataset has no answers.

Formula: 1 if the completion's answer is the teacher's, the one that most of `votes` replies give, else 0; unscored
where no two replies agree (of more than one).
Bounds: 0 or 1.
Answer: the text itself; case and blanks do not count, and numbers are equal that have the same value. The teacher sees
the text of the question, and its media with `endpoint.show_media`; else give it what they show as text in
`context_column`.
Space: none.
Source: teacher pseudo-labels with majority voting.
Example: replies `4`, `4.0`, `5`: the completion `4` 1, `5` 0.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import JudgeError, RewardError
from mmrl.scoring.batch import each
from mmrl.scoring.judge.endpoint import judge_of, preflight  # noqa: F401 - preflight is this reward's own
from mmrl.scoring.judge.prompts import Asked, ask_about, question_of
from mmrl.scoring.judge.votes import ask_each
from mmrl.scoring.parse import AnswerFormat, extract_prediction, parse_number

BOUNDS = (0.0, 1.0)


def score_batch(
    completions: Sequence[str],
    samples: Sequence[Sample],
    *,
    endpoint: dict[str, Any],
    answer: AnswerFormat = "auto",
    votes: int = 3,
    context_column: str | None = None,
) -> list[float | JudgeError | RewardError]:
    """`votes`: replies of the teacher per question. `context_column`: text that the teacher is shown."""
    task = "Answer the question as briefly as it can be answered: a word, a number, or an option's letter."
    judge = judge_of(endpoint)

    def questions(_: str, sample: Sample) -> list[Asked]:
        material = {"the question": question_of(sample, judge.endpoint)}
        if context_column is not None:
            material["what is shown"] = str(sample.columns.get(context_column, ""))
        return [ask_about(task, material, form='{"answer": "..."}', seed=seed) for seed in range(votes)]

    def result(completion: str, replies: list[Any] | RewardError) -> float | JudgeError | RewardError:
        label = replies if isinstance(replies, RewardError) else _majority(replies)
        if isinstance(label, JudgeError | RewardError):
            return label
        return float(_key(extract_prediction(completion, answer=answer)) == label)

    return list(map(result, completions, ask_each(judge, each(questions, completions, samples), _reply)))


def _reply(verdict: Any) -> float | str:
    text = verdict.get("answer") if isinstance(verdict, dict) else None
    key = _key(str(text)) if isinstance(text, str | int | float) and not isinstance(text, bool) else None
    if key is None or key == "":
        raise JudgeError(f"the reply {verdict!r:.100} has no answer")
    return key


def _key(text: str | None) -> float | str | None:
    value = parse_number(text) if text is not None else None
    return (None if text is None else " ".join(text.casefold().split())) if value is None else value


def _majority(replies: Sequence[Any]) -> Any:
    for reply in replies:
        if isinstance(reply, JudgeError):
            return reply
    label, count = Counter(replies).most_common(1)[0]
    if len(replies) > 1 and count == 1:
        return JudgeError(f"the teacher's {len(replies)} replies all differ")
    return label
