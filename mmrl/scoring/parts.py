"""The parts of each task's reward, as the configuration lists them, and what must hold between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmrl.config.schema import RewardPart, RewardsSection
from mmrl.errors import ConfigError
from mmrl.scoring.combine import PartRule, TaskRule
from mmrl.scoring.reward import Reward, resolve_reward

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
class TaskReward:
    """The parts that score a task, in their order, and how they become one number."""

    parts: tuple[Part, ...]
    rule: TaskRule


def part_name(spec: RewardPart) -> str:
    """The part's name in metrics: its own, else the function's, the file's or the shipped reward's."""
    if spec.name:
        return spec.name
    target, _, function = spec.reward.partition(":")
    return function or Path(target).stem


def part_names(section: RewardsSection) -> tuple[str, ...]:
    """Names of the K parts of a run: those of all tasks, each once."""
    return tuple(dict.fromkeys(part_name(spec) for specs in section.tasks.values() for spec in specs))


def task_rewards(section: RewardsSection, *, relative_to: Path | None) -> Mapping[str, TaskReward]:
    """The reward of every task. relative_to: folder that `./file.py:function` starts from; None: the current one."""
    columns = {name: column for column, name in enumerate(part_names(section))}
    found = {}
    for task, specs in section.tasks.items():
        names = [part_name(spec) for spec in specs]
        parts = tuple(
            Part(spec, name, columns[name], f"rewards.tasks.{task}[{i}] ({spec.reward})", relative_to)
            for i, (spec, name) in enumerate(zip(specs, names, strict=True))
        )
        found[task] = TaskReward(parts, _rule(task, parts, section))
    return found


def _rule(task: str, parts: Sequence[Part], section: RewardsSection) -> TaskRule:
    rules = tuple(
        PartRule(p.column, p.spec.weight, p.spec.is_format, p.spec.least_value, p.spec.tolerance) for p in parts
    )
    return TaskRule(rules, section.combine_of(task), leaves_out=section.on_error == "leave_out")


def check_parts(task: str, reward: TaskReward) -> None:
    """ConfigError for two parts of one name, for weights without a held-out score or a use, for unused tolerances."""
    key, combine = f"rewards.tasks.{task}", reward.rule.combine
    repeated = [name for name, count in Counter(p.name for p in reward.parts).items() if count > 1]
    if repeated:
        raise ConfigError(f"{key}: two parts are named {repeated[0]!r}; set `name` of one of them")
    if sum(p.spec.weight for p in reward.parts if not p.spec.is_format) <= 0:
        raise ConfigError(
            f"{key}: the weights of the parts that are not `is_format` must add up to more than 0, "
            "else the task has no held-out score"
        )
    for part in reward.parts:
        _check_gate(part, key=key)
        if combine in ("product", "ordered") and part.spec.weight not in (0, 1):
            raise ConfigError(
                f"{key}: {part.name!r} has the weight {part.spec.weight:g}, but a reward that is "
                f"{_NOUNS[combine]} knows no weights; use 1, or 0 for a part that is only logged"
            )
        if part.spec.tolerance and combine != "ordered":
            raise ConfigError(f"{key}: {part.name!r} has a tolerance, which only `combine: ordered` uses")


def _check_gate(part: Part, *, key: str) -> None:
    """ConfigError for a gate that is always closed, or always open, by the `BOUNDS` of its reward."""
    least, (low, high) = part.spec.least_value, part.reward.bounds
    if least is None:
        return
    is_shut = high is not None and least > high
    if is_shut or (low is not None and least <= low):
        opens = "above 0" if part.spec.gate is True else f"from {least:g} on"
        raise ConfigError(
            f"{key}: the gate of {part.name!r} opens {opens}, and its values lie between {low} and {high}: "
            f"it would {'never open' if is_shut else 'never close'}; set `gate: {{min: ...}}` to a value between"
        )
