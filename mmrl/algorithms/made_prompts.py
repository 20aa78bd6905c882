"""Prompts that a method makes from the rollouts of a step: the question with more words behind it."""

from __future__ import annotations

from dataclasses import replace

from mmrl.data.sample import Message, Sample, TextPart


def extended(sample: Sample, name: str, text: str) -> Sample:
    """The sample with words after its last message. name: what its id is extended by."""
    *before, last = sample.messages
    message = Message(last.role, (*last.parts, TextPart(text)))
    return replace(sample, sample_id=f"{sample.sample_id}~{name}", messages=(*before, message))


def judging(sample: Sample, name: str, text: str, *, task: str, answer: str) -> Sample:
    """The same as a prompt of a judge's task, whose answer is `answer`, a text without places."""
    return replace(extended(sample, name, text), task=task, answer=answer, answer_space=None)
