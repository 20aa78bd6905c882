"""Rows made from rollouts: what a `sample` stage keeps of the completions of a prompt, and how it is read again. Pure.

A maker looks at the scored completions of one prompt and gives `MadeRow`s. A row is stored as one line of JSON that
names the row of the dataset it was made from, so media and places stay where they are:

    {"id": "geo-17~correct-0", "source": {"dataset": "geo", "id": "geo-17"}, "columns": {"demonstration": "..."}}

Rows to learn by heart (sft), pairs (dpo):

    correct        right completions: rejection sampling, as of OpenVLThinker's rounds (Deng et al. 2025,
                   arXiv:2503.17352; how many are kept is ours)
    format_pairs   a well-formed completion over an ill-formed one that is as right: SPECS's self-distilled pairs
                   (abstract; the form is what parts with `is_format` score)
    damaged_pairs  a well-formed right completion over itself with tags lost, where sampling gives no ill-formed ones:
                   the other way to SPECS's pairs (which tags are lost is this project's choice)
    reward_pairs   the best completion over the worst
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mmrl.config.section import NonNegativeFloat, PositiveInt
from mmrl.data.readers import SampleSet
from mmrl.data.sample import MediaPart, Message, Sample, TextPart
from mmrl.data.seen_ids import SeenIds
from mmrl.errors import DataError


@dataclass(frozen=True)
class SampledGroup:
    """The completions of one prompt.

    scores: of the task, without format parts; NaN where unscored. forms: of the format parts alone, weighted mean; NaN
    where the task has none. lengths: in tokens. cut: whether the completion reached the limit.
    """

    sample: Sample
    texts: tuple[str, ...]
    scores: tuple[float, ...]
    forms: tuple[float, ...]
    lengths: tuple[int, ...]
    cut: tuple[bool, ...]

    def right(self, threshold: float) -> list[int]:
        """Numbers of the whole completions with at least this score."""
        return [n for n, score in enumerate(self.scores) if score >= threshold and not self.cut[n]]

    def wrong(self, threshold: float) -> list[int]:
        """Numbers of the completions with less, that say something."""
        return [n for n, score in enumerate(self.scores) if score < threshold and self.texts[n].strip()]


@dataclass(frozen=True)
class MadeRow:
    """A new row beside the one it was made from; what is None stays as it is there.

    question: in place of the words of the last message; its media stay. append: words behind the last message.
    task, answer: of the new row. columns: more columns.
    """

    question: str | None = None
    append: str | None = None
    task: str | None = None
    answer: Any = None
    columns: dict[str, Any] = field(default_factory=dict)


_TAG = re.compile(r"</?[A-Za-z_]+>")
Maker = Callable[..., Iterable[MadeRow]]


def correct(
    group: SampledGroup,
    chance: random.Random,
    *,
    threshold: float = 0.5,
    most: PositiveInt = 1,
    lengths: Literal["spread", "short", "any"] = "spread",
) -> Iterator[MadeRow]:
    """Up to `most` right completions, each text once, as demonstrations.

    lengths: spread: evenly over the right ones by length, so that rounds grow neither shorter nor longer by choice;
    short: the shortest; any: by chance.

    Of right completions with 10, 20, 30 and 40 tokens and most 2: spread takes 20 and 40, short 10 and 20.
    """
    right = list({group.texts[n]: n for n in reversed(group.right(threshold))}.values())
    right.sort(key=lambda n: (group.lengths[n], n))
    count = min(most, len(right))
    if lengths == "any":
        chosen = chance.sample(right, count)
    elif lengths == "short":
        chosen = right[:count]
    else:
        chosen = [right[int((i + 0.5) * len(right) / count)] for i in range(count)]
    for n in chosen:
        yield MadeRow(columns={"demonstration": group.texts[n]})


def format_pairs(
    group: SampledGroup,
    chance: random.Random,
    *,
    most: PositiveInt = 1,
    tolerance: NonNegativeFloat = 1e-6,
    least_gap: NonNegativeFloat = 0.5,
) -> Iterator[MadeRow]:
    """Up to `most` pairs of completions whose scores are equal (within `tolerance`) and whose forms differ by at least
    `least_gap`: the better formed one is chosen. No completion is in two pairs.
    """
    pairs = [
        (a, b)
        for a, b in _ordered_pairs(len(group.texts), chance)
        if abs(group.scores[a] - group.scores[b]) <= tolerance and group.forms[a] - group.forms[b] >= least_gap
    ]
    yield from _disjoint(group, [pair for pair in pairs if not group.cut[pair[0]]], most=most)


def damaged_pairs(
    group: SampledGroup, chance: random.Random, *, threshold: float = 0.5, most: PositiveInt = 1
) -> Iterator[MadeRow]:
    """Up to `most` right completions of perfect form, each over its own text without its tags, or without one of them.

    `<think>a</think><answer>b</answer>` over `ab`, or over `<think>a<answer>b</answer>`.
    """
    formed = [n for n in group.right(threshold) if group.forms[n] >= 1 and _TAG.search(group.texts[n])]
    for n in chance.sample(formed, min(most, len(formed))):
        text = group.texts[n]
        tag = chance.choice(list(_TAG.finditer(text)))
        damaged = _TAG.sub("", text) if chance.random() < 0.5 else text[: tag.start()] + text[tag.end() :]
        yield MadeRow(columns={"chosen": text, "rejected": damaged})


def reward_pairs(
    group: SampledGroup, chance: random.Random, *, most: PositiveInt = 1, least_gap: NonNegativeFloat = 0.5
) -> Iterator[MadeRow]:
    """Up to `most` pairs whose scores differ by at least `least_gap`, those furthest apart first."""
    pairs = [
        (a, b)
        for a, b in _ordered_pairs(len(group.texts), chance)
        if group.scores[a] - group.scores[b] >= least_gap and not group.cut[a]
    ]
    pairs.sort(key=lambda pair: group.scores[pair[1]] - group.scores[pair[0]])
    yield from _disjoint(group, pairs, most=most)


def _ordered_pairs(count: int, chance: random.Random) -> list[tuple[int, int]]:
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    chance.shuffle(pairs)
    return pairs


def _disjoint(group: SampledGroup, pairs: Sequence[tuple[int, int]], *, most: int) -> Iterator[MadeRow]:
    used: set[int] = set()
    for a, b in pairs:
        if not {a, b} & used and group.texts[a] != group.texts[b] and len(used) < 2 * most:
            used |= {a, b}
            yield MadeRow(columns={"chosen": group.texts[a], "rejected": group.texts[b]})


def as_json(made: MadeRow, sample: Sample, *, name: str) -> dict[str, Any]:
    """The line of a row. name: what its id has behind the sample's."""
    values = {"question": made.question, "append": made.append, "task": made.task, "answer": made.answer}
    return {
        "id": f"{sample.sample_id}~{name}",
        "source": {"dataset": sample.dataset, "id": sample.sample_id},
        **{key: value for key, value in values.items() if value is not None},
        "columns": made.columns,
    }


def from_json(row: dict[str, Any], source: Sample, *, origin: str) -> Sample:
    """The sample of a line, over the sample it was made from."""
    *before, last = source.messages
    parts = last.parts
    if "question" in row:
        parts = (*(part for part in parts if isinstance(part, MediaPart)), TextPart(row["question"]))
    if "append" in row:
        parts = (*parts, TextPart(row["append"]))
    answer = {"answer": row["answer"], "answer_space": None} if "answer" in row else {}
    return replace(
        source,
        sample_id=row["id"],
        task=row.get("task", source.task),
        messages=(*before, Message(last.role, parts)),
        columns={**source.columns, **row["columns"]},
        origin=origin,
        **answer,
    )


@dataclass(frozen=True, eq=False)
class _MadeRows:
    """What a SampleSet asks of a dataset, over made rows. places: of each row's source in `sources`."""

    name: str
    path: Path
    rows: list[dict[str, Any]]
    sources: SampleSet
    places: list[int]
    task_N: np.ndarray
    task_names: tuple[str, ...]
    seen: SeenIds
    budgets: dict[str, int] = field(default_factory=dict)

    def sample(self, index: int, given: Any = None) -> Sample:
        del given  # columns of files, which made rows have none of
        source = self.sources[self.places[index]]
        return from_json(self.rows[index], source, origin=f"{self.path.name}:{index + 1}")


def read_made_rows(path: Path, sources: Sequence[SampleSet], *, stage: str) -> SampleSet:
    """The rows that the stage of that name wrote. sources: the datasets it drew its prompts from.

    DataError where there are none, or where the rows of a dataset that they name are gone.
    """
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    if not rows:
        raise DataError(
            f"{path}: stage {stage!r} kept no rows; lower its threshold, sample more, or give it more steps"
        )
    every = SampleSet.concat(sources)
    places = _places(rows, every, path)
    codes: dict[str, int] = {}
    tasks = [codes.setdefault(r.get("task", every[p].task), len(codes)) for r, p in zip(rows, places, strict=True)]
    task_N = np.array(tasks, dtype=np.int32)
    seen = SeenIds()
    for row in rows:
        seen.add(row["id"])
    made: Any = _MadeRows(stage, path, rows, every, places, task_N, tuple(codes), seen)
    return SampleSet([made], np.zeros(len(rows), dtype=np.int64), np.arange(len(rows)))


def _places(rows: Sequence[dict[str, Any]], sources: SampleSet, path: Path) -> list[int]:
    found = sources.places_of({(row["source"]["dataset"], row["source"]["id"]) for row in rows})
    for number, row in enumerate(rows, start=1):
        key = (row["source"]["dataset"], row["source"]["id"])
        if key not in found:
            raise DataError(f"{path.name}:{number}: dataset {key[0]!r} has no row {key[1]!r} any more; put it back")
    return [found[row["source"]["dataset"], row["source"]["id"]] for row in rows]


def mean_form(values: Sequence[float], weights: Sequence[float]) -> float:
    """Weighted mean of format parts; NaN without any."""
    total = math.fsum(weights)
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / total if total else math.nan
