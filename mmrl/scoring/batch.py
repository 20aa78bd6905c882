"""What rewards of the batch form share: what is computed of each completion, before a model computes all together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mmrl.data.sample import Sample
from mmrl.errors import RewardError

T = TypeVar("T")


def each(
    build: Callable[[str, Sample], T], completions: Sequence[str], samples: Sequence[Sample]
) -> list[T | RewardError]:
    """`build` of every completion and its sample; the error in place of one whose row cannot be used."""
    built: list[T | RewardError] = []
    for completion, sample in zip(completions, samples, strict=True):
        try:
            built.append(build(completion, sample))
        except RewardError as error:
            built.append(error)
    return built
