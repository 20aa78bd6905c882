"""Which budget a medium has: one rule for preprocessing, `mmrl check`, training and evaluation."""

from __future__ import annotations

from mmrl.config.schema import BudgetClass, DataSection, DatasetSection, RunConfig
from mmrl.data.sample import MediaRef, Sample
from mmrl.data.templates import dataset_name
from mmrl.errors import ConfigError


def resolve_budget(config: RunConfig, dataset: DatasetSection, sample: Sample, ref: MediaRef) -> BudgetClass:
    """The budget class named by the medium, else by its sample's modality: the dataset's own, else the run's.

    Keys that the medium sets itself are put over it. Raises ConfigError naming sample and classes when there is none of
    that name; no class stands in for another.
    """
    name = ref.budget or sample.modality
    budget = dataset.budgets.get(name) or config.budgets.get(name)
    if budget is None:
        known = ", ".join(sorted({*dataset.budgets, *config.budgets}))
        raise ConfigError(
            f"{sample.where}: no budget class {name!r} (known: {known}); add budgets.{name} to the config"
        )
    return _with_own_keys(budget, ref, name=name, where=sample.where) if ref.budget_keys else budget


def _with_own_keys(budget: BudgetClass, ref: MediaRef, *, name: str, where: str) -> BudgetClass:
    own = BudgetClass.model_validate({**budget.model_dump(), **ref.budget_keys})
    if own.min_pixels > own.max_pixels:
        keys = ", ".join(f"{key} {value:g}" for key, value in ref.budget_keys.items())
        raise ConfigError(
            f"{where}: the row sets {keys}, but budgets.{name} has min_pixels {budget.min_pixels} and max_pixels "
            f"{budget.max_pixels}: the least would be above the most; set both in the row"
        )
    return own


def dataset_section(data: DataSection, name: str) -> DatasetSection:
    """The dataset of that name in `data.train` and `data.val`, as `Sample.dataset` names it.

    One name in both is fine while their budgets agree; else ConfigError, for a sample could not tell which it has.
    """
    found = [section for section in (*data.train, *data.val) if dataset_name(section) == name]
    if not found:
        raise ConfigError(f"no dataset {name!r} in data.train or data.val")
    if any(section.budgets != found[0].budgets for section in found):
        raise ConfigError(f"data.train and data.val both have a dataset {name!r}, with different budgets; add `name:`")
    return found[0]
