"""The reward router: from (sample, completions) to weighted parts of the reward, by the sample's task.

>>> section = RewardsSection.model_validate({"workers": 0, "tasks": {"quiz": [{"reward": "choice"}]}})
>>> sample = Sample("q-1", "quiz", "image", (), answer="B")
>>> Router(section).score([(sample, ["<answer>B</answer>", "A"])]).rewards
((1.0, 0.0),)
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmrl.config.schema import RewardPart, RewardsSection
from mmrl.data.sample import GeometryKind, Sample
from mmrl.errors import ConfigError, RewardError, did_you_mean, one_line
from mmrl.scoring.combine import PartRule, TaskRule
from mmrl.scoring.geometry import check_space, missing_space, model_space
from mmrl.scoring.pool import Group, Outcome, RewardCall, RewardPool
from mmrl.scoring.reward import Form, Reward, check_machine, check_options, resolve_reward
from mmrl.scoring.scores import Scores

__all__ = ["Router", "Scores"]

# Completions per message to a worker: enough to make the message's cost small, few enough to redo after a time-out.
CHUNK = 32
_NOUNS = {"product": "a product", "ordered": "an order"}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a task's reward. column: its place among the K parts. where: how error messages name it."""

    spec: RewardPart
    name: str
    column: int
    where: str
    relative_to: Path | None

    @property
    def reward(self) -> Reward:
        return resolve_reward(self.spec.reward, self.relative_to)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Completions of one sample, and the rows (of N) they are."""

    rows: range
    sample: Sample
    completions: tuple[str, ...]

    def split(self, size: int) -> Iterator[_Piece]:
        for start in range(0, len(self.rows), size):
            part = slice(start, start + size)
            yield _Piece(self.rows[part], self.sample, self.completions[part])


class Router:
    """Scores completions by task. A context manager; `close` ends its worker processes.

    relative_to: folder that `./file.py:function` starts from; None: the current one.
    """

    def __init__(self, section: RewardsSection, *, relative_to: Path | None = None) -> None:
        self.section = section
        names = {task: [part_name(p) for p in parts] for task, parts in section.tasks.items()}
        self.names = tuple(dict.fromkeys(name for task in names.values() for name in task))
        self._parts = {
            task: tuple(
                Part(spec, name, self.names.index(name), f"rewards.tasks.{task}[{i}] ({spec.reward})", relative_to)
                for i, (spec, name) in enumerate(zip(parts, names[task], strict=True))
            )
            for task, parts in section.tasks.items()
        }
        self._rules = {task: _rule(task, parts, section) for task, parts in self._parts.items()}
        spellings = tuple(dict.fromkeys(p.spec.reward for parts in self._parts.values() for p in parts))
        self._pool = RewardPool(
            section.workers, timeout_s=section.timeout_s, spellings=spellings, relative_to=relative_to
        )

    def __enter__(self) -> Router:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the worker processes. A later `score` starts new ones."""
        self._pool.close()

    def validate(self, tasks: Iterable[str] = ()) -> None:
        """Check everything that can be checked before training: plug-ins, options, names, weights, `tasks`.

        Raises RewardError for a task without reward, PluginError for a plug-in that cannot be found or has no known
        form, ConfigError for an option it does not have, two parts of one name, or only format parts.
        """
        for key, problem in self.section.name_problems():
            raise ConfigError(f"rewards.{key}: {problem}")
        for task in tasks:
            self._parts_of(task, where="data")
        for task, parts in self._parts.items():
            for part in parts:
                options = part.spec.options
                check_options(part.reward, options, where=part.where)
                check_machine(part.reward, options, timeout_s=self.section.timeout_s, where=part.where)
            _check_parts(task, parts, self._rules[task])
            self.geometry_kind(task)

    def check_spaces(
        self, answer_spaces: Mapping[str, str | None], *, box_space: str | None, time_space: str | None
    ) -> None:
        """ConfigError unless every task whose answer is a place has fitting spaces declared on both sides.

        answer_spaces: per task, the space its dataset card declares. box_space, time_space: the model's.
        """
        for task, answer in answer_spaces.items():
            kind = self.geometry_kind(task)
            if kind is None:
                continue
            model = model_space(kind, box_space=box_space, time_space=time_space)
            if answer is None or model is None:
                raise ConfigError(missing_space(kind, task=task, answer=answer, model=model))
            check_space(answer, kind=kind)
            check_space(model, kind=kind)

    def geometry_kind(self, task: str) -> GeometryKind | None:
        """What kind of place the answers of a task are, by its rewards' `GEOMETRY`; None where they are no place."""
        kinds: dict[GeometryKind, Part] = {}
        for part in self._parts_of(task, where=""):
            if part.reward.geometry is not None:
                kinds.setdefault(part.reward.geometry, part)
        if len(kinds) > 1:
            named = ", ".join(f"{part.name} ({kind})" for kind, part in kinds.items())
            raise ConfigError(f"rewards.tasks.{task}: one answer cannot be two kinds of place: {named}")
        return next(iter(kinds), None)

    def parts(self, task: str) -> tuple[Part, ...]:
        """The parts of a task's reward; RewardError for an unknown task."""
        return self._parts_of(task, where="")

    def score(self, groups: Sequence[tuple[Sample, Sequence[str]]]) -> Scores:
        """Score every completion of every group. What a reward fails to score is NaN and an event, never 0.

        Raises RewardError for an unknown task, and for any event when `rewards.on_error` is `error`.
        """
        fixed = [(sample, tuple(completions)) for sample, completions in groups]
        planned = list(self._plan(fixed))
        outcomes = self._pool.run([_call(part, pieces) for part, pieces in planned])
        scores = _Table(self.names, fixed)
        for (part, pieces), results in zip(planned, outcomes, strict=True):
            for row, outcome in zip((r for piece in pieces for r in piece.rows), results, strict=True):
                scores.put(row, part, outcome)
                if outcome.event and self.section.on_error == "error":
                    raise RewardError(scores.messages[f"{part.name}/{outcome.event}"])
        return scores.finish(tuple(self._rules[sample.task] for sample, _ in fixed))

    def _plan(self, groups: Sequence[Group]) -> Iterator[tuple[Part, list[_Piece]]]:
        """What to score together: for each part of each task the pieces of one call."""
        pieces: dict[str, list[_Piece]] = defaultdict(list)
        row = 0
        for sample, completions in groups:
            self._parts_of(sample.task, where=sample.where)
            if completions:
                pieces[sample.task].append(_Piece(range(row, row + len(completions)), sample, completions))
            row += len(completions)
        for task, of_task in pieces.items():
            for part in self._parts[task]:
                yield from ((part, packed) for packed in _packed(of_task, part.reward.form))

    def _parts_of(self, task: str, *, where: str) -> tuple[Part, ...]:
        if task not in self._parts:
            known = ", ".join(sorted(self._parts)) or "none"
            prefix = f"{where}: " if where else ""
            hint = did_you_mean(task, self._parts)
            raise RewardError(f"{prefix}no reward for task {task!r}; tasks in rewards.tasks: {known}{hint}")
        return self._parts[task]


def part_name(spec: RewardPart) -> str:
    """The part's name in metrics: its own, else the function's, the file's or the shipped reward's."""
    if spec.name:
        return spec.name
    target, _, function = spec.reward.partition(":")
    return function or Path(target).stem


def _rule(task: str, parts: Sequence[Part], section: RewardsSection) -> TaskRule:
    rules = tuple(
        PartRule(p.column, p.spec.weight, p.spec.is_format, p.spec.least_value, p.spec.tolerance) for p in parts
    )
    return TaskRule(rules, section.combine_of(task), leaves_out=section.on_error == "leave_out")


def _check_parts(task: str, parts: Sequence[Part], rule: TaskRule) -> None:
    key = f"rewards.tasks.{task}"
    repeated = [name for name, count in Counter(p.name for p in parts).items() if count > 1]
    if repeated:
        raise ConfigError(f"{key}: two parts are named {repeated[0]!r}; set `name` of one of them")
    if sum(p.spec.weight for p in parts if not p.spec.is_format) <= 0:
        raise ConfigError(
            f"{key}: the weights of the parts that are not `is_format` must add up to more than 0, "
            "else the task has no held-out score"
        )
    for part in parts:
        if rule.combine in ("product", "ordered") and part.spec.weight not in (0, 1):
            raise ConfigError(
                f"{key}: {part.name!r} has the weight {part.spec.weight:g}, but a reward that is "
                f"{_NOUNS[rule.combine]} knows no weights; use 1, or 0 for a part that is only logged"
            )
        if part.spec.tolerance and rule.combine != "ordered":
            raise ConfigError(f"{key}: {part.name!r} has a tolerance, which only `combine: ordered` uses")


def _packed(pieces: Sequence[_Piece], form: Form) -> Iterator[list[_Piece]]:
    """The pieces of each call: all of them (batch), one whole group (group), up to CHUNK completions (one)."""
    if form == "batch":
        yield list(pieces)
        return
    if form == "group":
        yield from ([piece] for piece in pieces)
        return
    chunk: list[_Piece] = []
    room = CHUNK
    for piece in (small for whole in pieces for small in whole.split(CHUNK)):
        if len(piece.rows) > room:
            yield chunk
            chunk, room = [], CHUNK
        chunk.append(piece)
        room -= len(piece.rows)
    yield chunk


def _call(part: Part, pieces: Sequence[_Piece]) -> RewardCall:
    groups = tuple((_lean(piece.sample, part.reward), piece.completions) for piece in pieces)
    return RewardCall(part.spec.reward, part.relative_to, part.spec.options, groups)


def _lean(sample: Sample, reward: Reward) -> Sample:
    """The sample as rewards see it: without media unless they are asked for, since pixels would travel to workers."""
    media = sample.media if reward.needs_media else ()
    return dataclasses.replace(sample, media=media, columns=dict(sample.columns))


class _Table:
    """Fills the arrays of Scores row by row."""

    def __init__(self, names: tuple[str, ...], groups: Sequence[Group]) -> None:
        self.names = names
        self.samples = [sample for sample, completions in groups for _ in completions]
        self.group_sizes = tuple(len(completions) for _, completions in groups)
        shape = (len(self.samples), len(names))
        self.values_NK, self.weights_NK = np.zeros(shape), np.zeros(shape)
        self.applies_NK, self.is_format_NK = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self.seconds_NK = np.zeros(shape)
        self.errors_NK, self.timeouts_NK = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
        self.extras: list[dict[str, float]] = [{} for _ in self.samples]
        self.events: Counter[str] = Counter()
        self.messages: dict[str, str] = {}

    def put(self, row: int, part: Part, outcome: Outcome) -> None:
        place = row, part.column
        self.values_NK[place], self.weights_NK[place] = outcome.value, part.spec.weight
        self.applies_NK[place], self.is_format_NK[place] = True, part.spec.is_format
        self.seconds_NK[place] = outcome.seconds
        self.timeouts_NK[place] = outcome.event == "timeout"
        self.errors_NK[place] = outcome.event not in (None, "timeout")
        self.extras[row].update({f"{part.name}.{key}": value for key, value in outcome.extra.items()})
        if outcome.event:
            key = f"{part.name}/{outcome.event}"
            self.events[key] += 1
            if key not in self.messages:
                sample = self.samples[row]
                reason = outcome.message.removeprefix(f"{sample.where}: ")
                fact = f"task {sample.task!r}, reward {part.name!r}: {outcome.event}: {reason}"
                self.messages[key] = one_line(f"{sample.where}: {fact}")

    def finish(self, rules_P: tuple[TaskRule, ...]) -> Scores:
        return Scores(
            names=self.names,
            values_NK=self.values_NK,
            applies_NK=self.applies_NK,
            weights_NK=self.weights_NK,
            is_format_NK=self.is_format_NK,
            seconds_NK=self.seconds_NK,
            errors_NK=self.errors_NK,
            timeouts_NK=self.timeouts_NK,
            group_sizes=self.group_sizes,
            rules_P=rules_P,
            extras=tuple(self.extras),
            events=dict(self.events),
            messages=self.messages,
        )
