"""The sections about rewards: which parts score a task's completions, and how they become one number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from mmrl.config.section import Combine, Count, NonNegativeFloat, NonNegativeInt, PositiveFloat, Section
from mmrl.errors import did_you_mean

# The least positive float: a gate without `min` is open at anything above 0.
_ABOVE_ZERO = 5e-324


class GateSection(Section):
    """A part that must be good enough for the others to count."""

    min: FiniteFloat = Field(description="least value that lets the other parts count")


class RewardPart(Section):
    reward: str = Field(description="shipped name, ./file.py:function or package.module:function")
    name: str | None = Field(default=None, description="name in metrics; null: the reward's")
    weight: FiniteFloat = Field(default=1.0, description="factor in the sum of the task's parts")
    is_format: bool = Field(default=False, description="counts for training, not for the held-out task score")
    gate: bool | GateSection = Field(
        default=False, description="where this part is 0, or below `min`, the task's other parts count 0"
    )
    tolerance: NonNegativeFloat = Field(
        default=0.0, description="combine ordered: values that differ by no more than this are equal"
    )
    options: dict[str, Any] = Field(default_factory=dict, description="keyword arguments of the reward")

    @property
    def least_value(self) -> float | None:
        """Value from which on the part, as a gate, is open; None: it is no gate."""
        if isinstance(self.gate, GateSection):
            return self.gate.min
        return _ABOVE_ZERO if self.gate else None


class RewardsSection(Section):
    tasks: dict[str, tuple[RewardPart, ...]] = Field(default_factory=dict, description="parts of the reward per task")
    like: dict[str, str] = Field(
        default_factory=dict, description="further task names, each with the task whose parts it has"
    )
    combine: Combine | dict[str, Combine] = Field(
        default="sum",
        description="how parts become one reward, of all tasks or per task: weighted sum, product, order (the first "
        "part decides, then the next), or sum of the parts normalised within the group; see rewards.md",
    )
    timeout_s: PositiveFloat = Field(default=10.0, description="longest time for one completion")
    workers: NonNegativeInt = Field(
        default=1, description="scoring processes; 0: in this process, without limits of time and memory"
    )
    worker_memory_gb: PositiveFloat | None = Field(
        default=16.0, description="memory that each scoring process may allocate, in 10^9 bytes; null: no limit"
    )
    batch_size: Count = Field(
        default=64,
        description="completions of one task that a reward of the batch form gets together, at least: as many whole "
        "groups as hold them",
    )
    on_error: Literal["unscored", "leave_out", "error"] = Field(
        default="unscored",
        description="a reward that raises, times out or is NaN: leave the row out of its group, leave the part out of "
        "the row's reward, or stop; a step in which no completion has a reward stops a run in any case",
    )

    def combine_of(self, task: str) -> Combine:
        return self.combine.get(task, "sum") if isinstance(self.combine, dict) else self.combine

    def name_problems(self) -> Iterator[tuple[str, str]]:
        """Key below `rewards` and problem of every name that should be a task and is none."""
        known = ", ".join(self.tasks) or "none"
        for name, task in self.like.items():
            if task not in self.tasks:
                hint = did_you_mean(task, self.tasks)
                yield "like", f"{name!r} is like {task!r}, which 'rewards.tasks' lacks; known: {known}{hint}"
            elif self.tasks[name] != self.tasks[task]:
                yield "like", f"{name!r} has parts of its own in 'rewards.tasks'; remove one of the two"
        for task in self.combine if isinstance(self.combine, dict) else ():
            if task not in self.tasks:
                hint = did_you_mean(task, self.tasks)
                yield "combine", f"names {task!r}, which 'rewards.tasks' lacks; known: {known}{hint}"

    @model_validator(mode="after")
    def _named_alike(self) -> Self:
        """Tasks of `like` become tasks of their own, so that every reader of `tasks` finds them."""
        alike = {name: self.tasks[task] for name, task in self.like.items() if task in self.tasks}
        tasks = {**self.tasks, **{name: parts for name, parts in alike.items() if name not in self.tasks}}
        object.__setattr__(self, "tasks", tasks)  # the section is frozen, and not yet handed out
        return self
