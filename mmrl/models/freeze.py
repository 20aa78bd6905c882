"""Freezing by group and by layer: which parameters belong to vision tower, projector and language model."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from mmrl.errors import ConfigError
from mmrl.models.family import Family, ModuleGroup
from mmrl.models.layers import check_ranges, place_of, read_ranges


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


def freeze(
    model: torch.nn.Module, groups: Collection[ModuleGroup], *, family: Family, layers: Sequence[str] = ()
) -> dict[ModuleGroup, int]:
    """Take gradients away from the parameters of `groups` and of `layers`, ranges as of mmrl.models.layers; returns the
    trainable parameters of each group.

    Raises ConfigError where nothing would be left to train, and for layers that the model does not have.
    """
    ranges = read_ranges(layers, where="model.freeze_layers")
    check_ranges(ranges, (name for name, _ in model.named_parameters()), where="model.freeze_layers")
    trainable: dict[ModuleGroup, int] = dict.fromkeys(family.module_groups, 0)
    for name, parameter in model.named_parameters():
        group = module_group(name, family)
        parameter.requires_grad_(group not in groups and place_of(name) not in ranges)
        if parameter.requires_grad:
            trainable[group] += parameter.numel()
    if not any(trainable.values()):
        names = ", ".join([*sorted(groups), *layers])
        raise ConfigError(f"model.freeze and model.freeze_layers name {names}: nothing is left to train; leave one out")
    return trainable
