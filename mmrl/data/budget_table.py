"""Which budget a medium gets: its class by name, as the run defines it, or as its dataset overrides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmrl.config.schema import BudgetClass, DataSection, RunConfig
from mmrl.data.sample import MediaRef, Sample
from mmrl.data.templates import dataset_name
from mmrl.errors import ConfigError


@dataclass(frozen=True)
class BudgetTable:
    """run: budget classes by name. datasets: the overrides of each dataset that has any."""

    run: Mapping[str, BudgetClass]
    datasets: Mapping[str, Mapping[str, BudgetClass]]

    @classmethod
    def of(cls, config: RunConfig, data: DataSection) -> BudgetTable:
        """The budgets of a run's stage. ConfigError when two datasets of one name override them differently."""
        datasets: dict[str, Mapping[str, BudgetClass]] = {}
        for section in (*data.train, *data.val):
            name = dataset_name(section)
            if datasets.setdefault(name, section.budgets) != section.budgets:
                raise ConfigError(f"two datasets called {name!r} have different `budgets`; give one another `name:`")
        return cls(config.budgets, datasets)

    def budget(self, sample: Sample, ref: MediaRef) -> BudgetClass:
        """The budget of one medium of a sample; ConfigError lists the classes when there is none of its name."""
        name = ref.budget or sample.modality
        classes = {**self.run, **self.datasets.get(sample.dataset, {})}
        if name not in classes:
            fact = f"{sample.where}: no budget class {name!r}; known: {', '.join(classes)}"
            raise ConfigError(f"{fact}; add `{name}` to `budgets` or change the row's modality")
        return classes[name]
