"""The reward router: from (sample, completions) to weighted parts of the reward, by the sample's task.

>>> section = RewardsSection.model_validate({"workers": 0, "tasks": {"quiz": [{"reward": "choice"}]}})
>>> sample = Sample("q-1", "quiz", "image", (), answer="B")
>>> Router(section).score([(sample, ["<answer>B</answer>", "A"])]).rewards
((1.0, 0.0),)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mmrl.config.schema import RewardsSection
from mmrl.data.sample import GeometryKind, Sample
from mmrl.errors import ConfigError, RewardError, did_you_mean
from mmrl.scoring.geometry import check_space, missing_space, model_space
from mmrl.scoring.ongoing import Scoring
from mmrl.scoring.parts import Part, TaskReward, check_parts, part_names, task_rewards
from mmrl.scoring.pool import RewardPool
from mmrl.scoring.reward import check_machine, check_options
from mmrl.scoring.scores import Scores

__all__ = ["Router", "Scores"]


class Router:
    """Scores completions by task. A context manager; `close` ends its worker processes.

    relative_to: folder that `./file.py:function` starts from; None: the current one.
    """

    def __init__(self, section: RewardsSection, *, relative_to: Path | None = None) -> None:
        self.section = section
        self.names = part_names(section)
        self._tasks = task_rewards(section, relative_to=relative_to)
        spellings = tuple(dict.fromkeys(p.spec.reward for reward in self._tasks.values() for p in reward.parts))
        self._pool = RewardPool(
            section.workers,
            timeout_s=section.timeout_s,
            memory_gb=section.worker_memory_gb,
            spellings=spellings,
            relative_to=relative_to,
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
            self._reward_of(task, where="data")
        for task, reward in self._tasks.items():
            for part in reward.parts:
                options = part.spec.options
                check_options(part.reward, options, where=part.where)
                check_machine(part.reward, options, timeout_s=self.section.timeout_s, where=part.where)
            check_parts(task, reward)
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
        for part in self.parts(task):
            if part.reward.geometry is not None:
                kinds.setdefault(part.reward.geometry, part)
        if len(kinds) > 1:
            named = ", ".join(f"{part.name} ({kind})" for kind, part in kinds.items())
            raise ConfigError(f"rewards.tasks.{task}: one answer cannot be two kinds of place: {named}")
        return next(iter(kinds), None)

    def votes(self, sample: Sample, completions: Sequence[str]) -> tuple[str | None, ...]:
        """What each completion answers, equal texts for equal answers; None: nothing. Empty where the task's reward
        has another number of weighted parts than one, or one that compares no answers; and for a row that it refuses.

        >>> section = RewardsSection.model_validate({"workers": 0, "tasks": {"quiz": [{"reward": "choice"}]}})
        >>> Router(section).votes(Sample("q-1", "quiz", "image", (), answer="B"), ["(b)", "A or B"])
        ('B', None)
        """
        weighted = [part for part in self.parts(sample.task) if part.spec.weight]
        vote = weighted[0].reward.vote if len(weighted) == 1 else None
        if vote is None:
            return ()
        try:
            return tuple(vote(completion, sample, **weighted[0].spec.options) for completion in completions)
        except RewardError:
            return ()

    def parts(self, task: str) -> tuple[Part, ...]:
        """The parts of a task's reward; RewardError for an unknown task."""
        return self._reward_of(task, where="").parts

    def score(self, groups: Sequence[tuple[Sample, Sequence[str]]]) -> Scores:
        """Score every completion of every group. What a reward fails to score is NaN and an event, never 0.

        Raises RewardError for an unknown task, and for any event when `rewards.on_error` is `error`.
        """
        scoring = self.start([(sample, len(completions)) for sample, completions in groups])
        scoring.add(dict(enumerate(completions for _, completions in groups)))
        return scoring.finish()

    def start(self, expected: Sequence[tuple[Sample, int]], *, progress: float = 1.0) -> Scoring:
        """Begin to score groups that are still to come: of each the sample, and how many completions it will have.

        progress: share of the stage's steps that training has done, which rewards see as `sample.progress`.

        Groups are added, in any order, by their number; scores are in the order of `expected`, and the same as `score`
        gives. Raises RewardError for an unknown task.

        >>> section = RewardsSection.model_validate({"workers": 0, "tasks": {"quiz": [{"reward": "choice"}]}})
        >>> scoring = Router(section).start([(Sample(n, "quiz", "image", (), answer="B"), 2) for n in ("q-1", "q-2")])
        >>> scoring.add({1: ["A", "B"]})
        >>> scoring.add({0: ["B", "B"]})
        >>> scoring.finish().rewards
        ((1.0, 1.0), (0.0, 1.0))
        """
        tasks = {sample.task: self._reward_of(sample.task, where=sample.where) for sample, _ in expected}
        seen = [(dataclasses.replace(sample, progress=progress), size) for sample, size in expected]
        return Scoring(tasks, seen, names=self.names, pool=self._pool, section=self.section)

    def _reward_of(self, task: str, *, where: str) -> TaskReward:
        if task not in self._tasks:
            known = ", ".join(sorted(self._tasks)) or "none"
            prefix = f"{where}: " if where else ""
            hint = did_you_mean(task, self._tasks)
            raise RewardError(f"{prefix}no reward for task {task!r}; tasks in rewards.tasks: {known}{hint}")
        return self._tasks[task]
