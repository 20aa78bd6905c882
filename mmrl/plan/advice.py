"""Which single key to change, and to which value, when a run does not fit; each remedy is tried before it is named.

Remedies in order of what they cost: time only, then gradient traffic, then what the model sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mmrl.config.schema import RunConfig
from mmrl.plan.memory import Machine, fitting_micro_batch, rank_memory
from mmrl.plan.model import ModelFacts
from mmrl.plan.rows import PlannedDataset, PlannedRow, RowPlanner
from mmrl.plan.spread import percentile

_TRIED_ROWS = 64
"""Rows that are counted anew while a budget is searched: the longest. What is found is then checked on all rows."""


@dataclass(frozen=True, slots=True)
class Advice:
    """change: what to set. effect: what it does to the numbers that were too large."""

    change: str
    effect: str

    def __str__(self) -> str:
        return f"{self.change}: {self.effect}"


@dataclass(frozen=True)
class Adviser:
    """Tries remedies on the rows and the memory of a run."""

    config: RunConfig
    facts: ModelFacts | None
    machine: Machine
    planner: RowPlanner | None
    datasets: Sequence[PlannedDataset]

    def of_lengths(self) -> list[Advice]:
        """For prompts above max_prompt_tokens that stop the run: one key of one budget class, or the limit itself."""
        found = []
        sections: dict[str, list[PlannedDataset]] = {}
        for dataset in self.datasets:
            if dataset.too_long and dataset.data.too_long == "error":
                sections.setdefault(_data_key(dataset), []).append(dataset)
        for key, datasets in sections.items():
            limit = datasets[0].limit
            found += self._budget_advice(datasets, lambda rows, limit=limit: _longest(rows) <= limit)
            longest = max(dataset.too_long[0].prompt_tokens for dataset in datasets)
            raised = -(-longest // 64) * 64
            change = f"raise {key}.max_prompt_tokens from {limit:,} to {raised:,}"
            found.append(Advice(change, f"the longest prompt has {longest:,} tokens"))
        return found

    def of_memory(self) -> list[Advice]:
        """For a process that needs more than it has."""
        if self.facts is None:
            return []
        trained = [dataset for dataset in self.datasets if dataset.split == "train"]
        return [*self._cheap_advice(), *self._budget_advice(trained, self._fits_with)]

    def _cheap_advice(self) -> Iterator[Advice]:
        assert self.facts is not None
        train, rows = self.config.train, trained_rows(self.datasets)
        tokens = fitting_micro_batch(self.config, self.facts, rows, self.machine)
        tried: list[tuple[str, Any, str]] = []
        if tokens is not None and tokens < train.micro_batch_tokens:
            tried.append(
                ("train.micro_batch_tokens", tokens, f"lower %s from {train.micro_batch_tokens:,} to {tokens:,}")
            )
        if not self.config.model.gradient_checkpointing:
            tried.append(("model.gradient_checkpointing", True, "set %s to true"))
        if self.machine.processes > 1:
            stages = range(train.zero_stage + 1, 4)
            tried += [("train.zero_stage", stage, f"raise %s from {train.zero_stage} to {stage}") for stage in stages]
        if self.machine.on_gpu and train.offload is None and train.zero_stage > 0:
            tried.append(("train.offload", "optimizer", "set %s to optimizer"))
        batch = self.config.rollout.max_batch_tokens
        while (batch := batch // 2) >= 1024:
            text = f"lower %s from {self.config.rollout.max_batch_tokens:,} to {batch:,}"
            tried.append(("rollout.max_batch_tokens", batch, text))
        told = set()
        for key, value, text in tried:
            need = self._need(changed(self.config, key, value), rows)
            if key not in told and need is not None and need <= self.machine.process_bytes:
                told.add(key)
                yield Advice(text % key, self._needs(need))

    def _budget_advice(
        self, datasets: Sequence[PlannedDataset], is_enough: Callable[[Sequence[PlannedRow]], bool]
    ) -> list[Advice]:
        """The best single key of one budget class: the one that must be lowered least."""
        if self.planner is None:
            return []
        rows = [row for dataset in datasets for row in dataset.rows]
        clips = {m.budget for row in rows for m in row.media if m.kind == "video"}
        classes = sorted({medium.budget for row in rows for medium in row.media})
        keys = [
            (name, key)
            for name in classes
            for key in ("max_frames", "max_pixels")
            if key == "max_pixels" or name in clips
        ]
        found = [one for one in (self._lowered(datasets, *key, is_enough) for key in keys) if one is not None]
        return [advice for _, advice in sorted(found, key=lambda pair: -pair[0])]

    def _lowered(
        self, datasets: Sequence[PlannedDataset], name: str, key: str, is_enough: Callable[[Sequence[PlannedRow]], bool]
    ) -> tuple[float, Advice] | None:
        """The largest value of one key that is enough, with the share of the old value that it keeps."""
        place = _budget_place(self.config, datasets, name)
        if place is None or self.planner is None:
            return None
        old = getattr(_value_at(self.config, place), key)
        least = getattr(_value_at(self.config, place), key.replace("max", "min"))
        step = self.planner.processor.geometry.token_pixels if key == "max_pixels" else 1
        low, high = -(-least // step), old // step  # low is tried last
        if high <= low:
            return None

        def rows_at(value: int, numbers: int | None) -> list[PlannedRow]:
            config = changed(self.config, f"{place}.{key}", value * step)
            return [row for dataset in datasets for row in self._counted(dataset, config, numbers)]

        if not is_enough(rows_at(low, _TRIED_ROWS)):
            return None
        while high - low > max(1, low // 64):
            middle = (low + high) // 2
            low, high = (middle, high) if is_enough(rows_at(middle, _TRIED_ROWS)) else (low, middle)
        rows = rows_at(low, None)
        if not is_enough(rows):
            return None
        before = [row for dataset in datasets for row in dataset.rows]
        change = f"lower {place}.{key} from {old:,} to {low * step:,}"
        return low * step / old, Advice(change, self._said(before, rows))

    def _counted(self, dataset: PlannedDataset, config: RunConfig, most: int | None) -> list[PlannedRow]:
        assert self.planner is not None
        chosen = dataset.rows if most is None else sorted(dataset.rows, key=lambda row: -row.prompt_tokens)[:most]
        return self.planner.again(dataset, [row.number for row in chosen], config)

    def _said(self, before: Sequence[PlannedRow], after: Sequence[PlannedRow]) -> str:
        old, new = (sorted(row.prompt_tokens for row in rows) for rows in (before, after))
        said = (
            f"p99 prompt {percentile(old, 99):,} -> {percentile(new, 99):,} tokens, longest {old[-1]:,} -> {new[-1]:,}"
        )
        need = self._need(self.config, after)
        return said if need is None else f"{said}; then {self._needs(need)}"

    def _fits_with(self, rows: Sequence[PlannedRow]) -> bool:
        need = self._need(self.config, rows)
        return need is not None and need <= self.machine.process_bytes

    def _need(self, config: RunConfig, rows: Sequence[PlannedRow]) -> int | None:
        if self.facts is None:
            return None
        found = rank_memory(config, self.facts, rows, self.machine)
        return None if found is None else found.peak

    def _needs(self, need: int) -> str:
        return f"a process needs {need / 1e9:.1f} GB of {self.machine.process_bytes / 1e9:.1f}"


def trained_rows(datasets: Sequence[PlannedDataset]) -> list[PlannedRow]:
    """The rows that training sees."""
    return [row for dataset in datasets if dataset.split == "train" for row in dataset.trained]


def changed(config: RunConfig, place: str, value: Any) -> RunConfig:
    """The configuration with another value at a place such as `budgets.video.max_frames`."""
    return _with(config, place.split("."), value)


def _with(section: Any, words: Sequence[str], value: Any) -> Any:
    if not words:
        return value
    first, rest = words[0], words[1:]
    if isinstance(section, dict):
        return {**section, first: _with(section[first], rest, value)}
    if isinstance(section, tuple):
        index = int(first)
        return (*section[:index], _with(section[index], rest, value), *section[index + 1 :])
    return section.model_copy(update={first: _with(getattr(section, first), rest, value)})


def _value_at(section: Any, place: str) -> Any:
    for word in place.split("."):
        section = (
            section[word]
            if isinstance(section, dict)
            else section[int(word)]
            if isinstance(section, tuple)
            else getattr(section, word)
        )
    return section


def _budget_place(config: RunConfig, datasets: Sequence[PlannedDataset], name: str) -> str | None:
    """Where a class is written: at the run, or at the one dataset that has its own."""
    own = [dataset for dataset in datasets if name in dataset.section.budgets]
    if not own:
        return f"budgets.{name}" if name in config.budgets else None
    return f"{own[0].key}.budgets.{name}" if len(own) == 1 == len(datasets) else None


def _data_key(dataset: PlannedDataset) -> str:
    return dataset.key.rpartition(f".{dataset.split}.")[0]


def _longest(rows: Sequence[PlannedRow]) -> int:
    return max((row.prompt_tokens for row in rows), default=0)
