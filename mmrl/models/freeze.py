"""Freezing by module group: which parameters of a model belong to vision tower, projector and language model."""

from __future__ import annotations

from collections.abc import Collection

import torch

from mmrl.errors import ConfigError
from mmrl.models.family import Family, ModuleGroup


def module_group(name: str, family: Family) -> ModuleGroup:
    """The group of a parameter: that of the longest prefix in the family's table.

    Raises ConfigError for a name the table does not know: it would be trained although every group is frozen.

    >>> module_group("model.visual.merger.mlp.0.weight", FAMILIES["qwen2_5_vl"])
    'projector'
    """
    fitting: list[tuple[int, ModuleGroup]] = [
        (len(prefix), group)
        for group, prefixes in family.module_groups.items()
        for prefix in prefixes
        if name.startswith(prefix)
    ]
    if not fitting:
        raise ConfigError(f"parameter {name!r} belongs to no module group of family {family.name!r}")
    return max(fitting, key=lambda pair: pair[0])[1]


def freeze(model: torch.nn.Module, groups: Collection[ModuleGroup], *, family: Family) -> dict[ModuleGroup, int]:
    """Take gradients away from the parameters of `groups`; returns the trainable parameters of each group.

    Raises ConfigError where nothing would be left to train.
    """
    trainable: dict[ModuleGroup, int] = dict.fromkeys(family.module_groups, 0)
    for name, parameter in model.named_parameters():
        group = module_group(name, family)
        parameter.requires_grad_(group not in groups)
        if parameter.requires_grad:
            trainable[group] += parameter.numel()
    if not any(trainable.values()):
        raise ConfigError(f"model.freeze names {', '.join(sorted(groups))}: nothing is left to train; leave one out")
    return trainable
