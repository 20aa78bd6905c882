"""Whether rows and configuration fit: tasks have rewards, places have spaces, media have budget classes.

What only the rows show is found here, by the same code for `mmrl check` and, before a model is loaded, for training.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from mmrl.config.checks import Located
from mmrl.config.schema import DatasetSection
from mmrl.data.readers import SampleSet
from mmrl.data.sample import MediaKind, Sample
from mmrl.errors import ConfigError, MmrlError, did_you_mean, nearest
from mmrl.models.families import FamilyProcessor
from mmrl.models.hub import model_folder
from mmrl.models.load import processor_of
from mmrl.scoring.router import Router

_ALWAYS_THERE = ("image", "video")
_PROCESSOR_KEYS = ("model.chat_template", "model.enable_thinking")  # beside model.path, on which a processor depends


def processor_at(run: Located) -> FamilyProcessor:
    """The processor of the run's model, whose weight files were found whole (none is read). ConfigError begins with the
    line that names the model, or of the key at fault.
    """
    try:
        processor = processor_of(run.config.model)
        model_folder(run.config.model, weights=True)
        return processor
    except ConfigError as error:
        said = str(error)
        named = next((key for key in _PROCESSOR_KEYS if said.startswith(key)), None)
        line = run.at(named, said) if named else run.at("model.path", f"key 'model.path': {said}")
        raise ConfigError(line) from error


@dataclass
class Fit:
    """Collects contradictions over the datasets of a run. used: budget classes that some medium has."""

    run: Located
    router: Router
    processor: FamilyProcessor
    used: set[str] = field(default_factory=set)

    def problems(
        self, key: str, section: DatasetSection, samples: SampleSet, *, scored: Collection[str]
    ) -> Iterator[str]:
        """Contradictions of one dataset.

        key: where it is written (`data.train.0`). scored: tasks of it that need a reward.
        """
        for task in sorted(scored):
            first = samples.of_tasks([task])[0]
            if task not in self.run.config.rewards.tasks:
                yield self.run.at("rewards.tasks", self._no_reward(first))
            else:
                yield from self._space_problem(key, first)
        for name, first in samples.first_of_budgets().items():
            self.used.add(name)
            if name not in section.budgets and name not in self.run.config.budgets:
                yield self.run.at("budgets", self._no_budget(section, name, first))
            else:
                yield from self._budget_problems(key, section, name, first)

    def unused(self, *, datasets: Collection[tuple[str, DatasetSection]]) -> tuple[list[str], list[str]]:
        """Budget classes that no medium of all the datasets has: those that look misspelt, and the others.

        datasets: key and section of each one that `problems` was asked about.
        """
        known = {*self.used, *_ALWAYS_THERE}
        written = [("budgets", name) for name in self.run.config.budgets]
        written += [(f"{key}.budgets", name) for key, section in datasets for name in section.budgets]
        misspelt, idle = [], []
        for prefix, name in written:
            if name in known:
                continue
            fact = self.run.at(f"{prefix}.{name}", f"no medium has the budget class '{prefix}.{name}'")
            (misspelt if nearest(name, known) else idle).append(fact + did_you_mean(name, known))
        return misspelt, idle

    def _no_reward(self, first: Sample) -> str:
        tasks = self.run.config.rewards.tasks
        listed = ", ".join(sorted(tasks)) or "none"
        fact = f"{first.where}: no reward for task {first.task!r}; tasks in 'rewards.tasks': {listed}"
        return fact + did_you_mean(first.task, tasks)

    def _space_problem(self, key: str, first: Sample) -> Iterator[str]:
        spaces = {"box_space": self.processor.box_space, "time_space": self.processor.time_space}
        try:
            self.router.check_spaces({first.task: first.answer_space}, **spaces)
        except MmrlError as error:
            yield self.run.at(f"{key}.card.answer_space", f"{first.where}: {error}")

    def _budget_problems(self, key: str, section: DatasetSection, name: str, first: Sample) -> Iterator[str]:
        """What the model's family says of a budget class and of the kinds of media of its first sample."""
        own = name in section.budgets
        budget = section.budgets[name] if own else self.run.config.budgets[name]
        kinds: set[MediaKind] = {ref.kind for ref in first.media if (ref.budget or first.modality) == name}
        for kind in sorted(kinds):
            problem = self.processor.geometry.budget_problem(kind, budget)
            if problem is not None:
                yield self.run.at(f"{key}.budgets.{name}" if own else f"budgets.{name}", f"{first.where}: {problem}")

    def _no_budget(self, section: DatasetSection, name: str, first: Sample) -> str:
        known = sorted({*section.budgets, *self.run.config.budgets})
        fact = f"{first.where}: no budget class {name!r} (known: {', '.join(known)}); add 'budgets.{name}'"
        return fact + did_you_mean(name, known)
