"""The dataset's answer as a reward needs it, or RewardError naming the sample. Pure.

A dataset may wrap its answers as its completions are wrapped (`<answer>B</answer>`, `\\boxed{3}`); the wrapping is
taken off. Nothing else is: an answer of the wrong type is an error of the data, never a score.
"""

from __future__ import annotations

from typing import Any, Literal

from mmrl.data.sample import GeometryKind, Sample
from mmrl.errors import RewardError, type_words
from mmrl.scoring.literals import is_number
from mmrl.scoring.parse import extract_prediction, parse_geometry, parse_integers, parse_number, values_of


def bad_answer(sample: Sample, *, wanted: str) -> RewardError:
    """The error for an answer that is not what the reward needs: where, what it is, what was wanted."""
    return RewardError(f"{sample.where}: the answer {sample.answer!r} is not {wanted}")


def bad_column(sample: Sample, name: str, *, wanted: str) -> RewardError:
    """The error for a column that is missing or not what the reward needs."""
    has = f"is {type_words(sample.columns[name])}, not" if name in sample.columns else "is missing; it is"
    return RewardError(f"{sample.where}: the column {name!r} {has} {wanted}")


def gold_text(sample: Sample) -> str:
    """The answer as text; numbers in their shortest form. Raises RewardError for anything else, or when empty.

    Of `{"answer": "B", "frames": [..]}`, an answer with the key frames (or `spans`) that are evidence for it, the text
    is `B`.
    """
    answer = _without_evidence(sample.answer)
    if is_number(answer):
        return repr(answer)
    text = extract_prediction(answer) if isinstance(answer, str) else None
    if text is None:
        raise bad_answer(sample, wanted="a text or a number")
    return text


def _without_evidence(answer: Any) -> Any:
    is_pair = isinstance(answer, dict) and answer.keys() in ({"answer", "frames"}, {"answer", "spans"})
    return answer["answer"] if is_pair else answer


def gold_texts(sample: Sample) -> tuple[str, ...]:
    """The accepted answers: one text or number, or a list of them."""
    answer = _without_evidence(sample.answer)
    if not isinstance(answer, list | tuple):
        return (gold_text(sample),)
    texts = [str(a).strip() for a in answer if is_number(a) or (isinstance(a, str) and a.strip())]
    if not texts or len(texts) != len(answer):
        raise bad_answer(sample, wanted="a list of texts")
    return tuple(texts)


def gold_number(sample: Sample, *, percent: Literal["fraction", "ignore"] = "fraction") -> float:
    """The answer as a finite number, read from text by the rules of `parse_number`."""
    value = parse_number(gold_text(sample), percent=percent)
    if value is None:
        raise bad_answer(sample, wanted="one number")
    return value


def gold_integers(sample: Sample) -> tuple[int, ...]:
    """The answer as a list of integers: a list, or text such as `3,1,2`."""
    answer = sample.answer
    if isinstance(answer, list | tuple):
        answer = ",".join(map(str, answer)) if all(map(is_number, answer)) else None
    values = parse_integers(extract_prediction(answer) or "") if isinstance(answer, str) else None
    if not values:
        raise bad_answer(sample, wanted="a list of integers")
    return values


def _only_span(answer: Any) -> Any:
    return answer["spans"] if isinstance(answer, dict) and answer.keys() == {"answer", "spans"} else answer


def gold_geometry(sample: Sample, *, kind: GeometryKind) -> tuple[float, ...]:
    """The answer as a box with positive area, a point, or a span of positive length.

    Of `{"answer": "B", "spans": [[2, 5.5]]}` the time is its one span.
    """
    answer, count = _only_span(sample.answer) if kind == "time" else sample.answer, 4 if kind == "box" else 2
    if isinstance(answer, str):
        values = parse_geometry(extract_prediction(answer) or "", kind=kind)
    else:
        values = values_of(answer, count=count)
    half = count // 2
    if values is None or len(values) != count:
        raise bad_answer(sample, wanted=f"a {kind} of {count} numbers")
    if kind != "point" and not all(low < high for low, high in zip(values[:half], values[half:], strict=True)):
        raise bad_answer(sample, wanted=f"a {kind} with a positive extent")
    return values
