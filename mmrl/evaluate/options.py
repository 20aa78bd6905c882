"""The options of multiple choice in another order: shuffled, or the question asked once for every rotation.

The row's options are moved before anything is made of them, so prompt, letters and parser see the same order; the
right letter goes with its option.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

from mmrl.config.benchmark_section import ROTATION_OF, ShuffleSection
from mmrl.config.reward_sections import RewardPart
from mmrl.data.readers import SampleSet
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, DataError, RewardError
from mmrl.scoring.gold import gold_text
from mmrl.scoring.option_labels import labelled_options, option_prefixes
from mmrl.scoring.parse import parse_choice
from mmrl.scoring.reward import resolve_reward

MOST_OPTIONS = 26
_COLUMN = "options_column"  # the option of a reward that names the column with the options

Order = Literal["written", "circular"] | ShuffleSection


def read_order(text: str) -> Order:
    """What --options says: `written`, `circular` or `shuffle:SEED`.

    >>> read_order("shuffle:7").shuffle
    7
    """
    kind, _, seed = text.partition(":")
    if text in ("written", "circular"):
        return text
    if kind != "shuffle" or not seed.isdecimal():
        raise ConfigError(f"--options {text!r}: give written, circular or shuffle:SEED (shuffle:0)")
    return ShuffleSection(shuffle=int(seed))


def option_columns(parts: Mapping[str, Sequence[RewardPart]], *, relative_to: Any = None) -> dict[str, str]:
    """The column with the options, of every task that has a part that reads one."""
    found = {}
    for task, of_task in parts.items():
        for part in of_task:
            known = inspect.signature(resolve_reward(part.reward, relative_to).function).parameters
            if _COLUMN in known:
                found.setdefault(task, part.options.get(_COLUMN, known[_COLUMN].default))
    return found


@dataclass(frozen=True)
class _Place:
    """A question to ask: of which row, and which of its options stands at each place (None: as written)."""

    row: int
    order: tuple[int, ...] | None
    turn: int = 0


class MovedOptions(Sequence[Sample]):
    """The samples of a set with their options in another order. Rows of tasks without options stay as they are.

    columns: the column with the options, by task. Raises DataError for a row whose options cannot be moved: it has
    none, more than there are letters, an answer that is none of them, or a prompt that does not show the column.
    """

    def __init__(self, samples: SampleSet, order: Order, columns: Mapping[str, str]) -> None:
        self._samples, self._columns, self._is_circular = samples, columns, order == "circular"
        self._places = [place for row, sample in enumerate(samples) for place in self._of(row, sample, order)]

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        return self._moved(self._places[index])

    def _of(self, row: int, sample: Sample, order: Order) -> list[_Place]:
        column = self._columns.get(sample.task)
        if column is None:
            return [_Place(row, None)]
        count = len(_labelled(sample, column))
        if order == "circular":
            return [_Place(row, tuple((n + turn) % count for n in range(count)), turn) for turn in range(count)]
        assert isinstance(order, ShuffleSection)
        places = list(range(count))
        random.Random(f"{order.shuffle}/{sample.sample_id}").shuffle(places)
        return [_Place(row, tuple(places))]

    def _moved(self, place: _Place) -> Sample:
        sample = self._samples[place.row]
        if place.order is None:
            return self._named(sample, sample, place)
        column = self._columns[sample.task]
        options = _labelled(sample, column)
        labels, texts = tuple(options), tuple(options.values())
        value = _reordered(sample.columns[column], place.order, sample, column)
        moved = self._samples.with_columns(place.row, {column: value})
        shown = tuple(texts[n] for n in place.order)
        if shown != texts and moved.messages == sample.messages:
            raise DataError(
                f"{sample.where}: the options cannot be moved: the prompt does not show the column {column!r}"
            )
        if sample.answer not in (None, "", []):  # a split whose answers are not published
            gold = labels.index(_gold(sample, labels, texts))
            moved = replace(moved, answer=labels[place.order.index(gold)])
        return self._named(moved, sample, place)

    def _named(self, sample: Sample, written: Sample, place: _Place) -> Sample:
        """With an id of its own, and the question that all rotations are of."""
        if not self._is_circular:
            return sample
        key = written.sample_id if place.turn == 0 else f"{written.sample_id}/{place.turn}"
        return replace(sample, sample_id=key, columns={**sample.columns, ROTATION_OF: written.sample_id})


def _labelled(sample: Sample, column: str) -> Mapping[str, str]:
    if sample.columns.get(column) is None:
        raise DataError(
            f"{sample.where}: the options cannot be moved: no column {column!r} holds them; options that stand in the "
            "question itself stay where they are (make a column of them in a task file of your own)"
        )
    try:
        options = labelled_options(sample, column=column)
    except RewardError as error:
        raise DataError(str(error)) from error
    if not 1 <= len(options) <= MOST_OPTIONS:
        raise DataError(f"{sample.where}: {len(options)} options cannot be moved; 1 to {MOST_OPTIONS} have letters")
    return options


def _gold(sample: Sample, labels: Sequence[str], texts: Sequence[str]) -> str:
    gold = parse_choice(gold_text(sample), letters=labels, options=texts)
    if gold is None:
        raise DataError(f"{sample.where}: the answer {sample.answer!r} is none of its options {', '.join(labels)}")
    return gold


def _reordered(value: Any, order: Sequence[int], sample: Sample, column: str) -> Any:
    """The column's value with its texts in another order; labels, and letters before the texts, stay in theirs."""
    options = labelled_options(sample, column=column)
    texts = list(options.values())
    if isinstance(value, dict):
        labels = [label for label, text in value.items() if text is not None]
        return {**value, **{label: texts[n] for label, n in zip(labels, order, strict=True)}}
    prefixes = option_prefixes(value)
    return [prefix + texts[n] for prefix, n in zip(prefixes, order, strict=True)]
