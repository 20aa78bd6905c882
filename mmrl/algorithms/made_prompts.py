"""Prompts that a method makes from the rollouts of a step: the question with more words behind it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mmrl.algorithms.parts import outcome
from mmrl.algorithms.rollout_batch import RolloutBatch
from mmrl.data.sample import MediaPart, Message, Sample, TextPart


def extended(sample: Sample, name: str, text: str) -> Sample:
    """The sample with words after its last message. name: what its id is extended by."""
    *before, last = sample.messages
    message = Message(last.role, (*last.parts, TextPart(text)))
    return replace(sample, sample_id=f"{sample.sample_id}~{name}", messages=(*before, message))


def judging(sample: Sample, name: str, text: str, *, task: str, answer: str) -> Sample:
    """The same as a prompt of a judge's task, whose answer is `answer`, a text without places."""
    return replace(extended(sample, name, text), task=task, answer=answer, answer_space=None)


def answers_of(batch: RolloutBatch, generate: Any) -> dict[int, tuple[str, float]]:
    """Text and reward of each row that has both and answers a prompt of the dataset, not one that was made."""
    found = {}
    for row, reward in enumerate(outcome(batch).tolist()):
        is_made = bool(batch.kind) and batch.kind[row] == "recycled"
        text = "" if is_made or reward != reward else generate.text(batch, row).strip()  # NaN: unscored
        if text:
            found[row] = (text, reward)
    return found


def asking(sample: Sample, name: str, text: str, *, task: str, answer: str) -> Sample:
    """The same with words in place of those of the last message; its media stay."""
    *before, last = sample.messages
    message = Message(last.role, (*(part for part in last.parts if isinstance(part, MediaPart)), TextPart(text)))
    return replace(
        sample,
        sample_id=f"{sample.sample_id}~{name}",
        messages=(*before, message),
        task=task,
        answer=answer,
        answer_space=None,
    )
