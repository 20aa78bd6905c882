"""LoRA through peft: adapters beside frozen linear layers, put in, saved, loaded and merged.

The model stays the object it was; its linear layers are replaced by ones that hold an adapter. So log-probs, rollouts
and weight names need no case for it, and what has a gradient is the adapters and `modules_to_save` alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mmrl.config.schema import LoraSection, ModelSection
from mmrl.errors import ConfigError, did_you_mean
from mmrl.models.family import Family
from mmrl.models.freeze import module_group
from mmrl.models.hub import remedy
from mmrl.models.trained import trained_tensors

ADAPTER_CONFIG = "adapter_config.json"
_ADAPTER_WEIGHTS = "adapter_model.safetensors"
_HEAD = "lm_head"


@dataclass(frozen=True, slots=True)
class AdapterBase:
    """The model an adapter was made for: a folder or hub id, and its revision."""

    path: str
    revision: str | None


def adapter_base(folder: Path) -> AdapterBase | None:
    """The base of the adapter in this folder; None where there is no adapter."""
    path = folder / ADAPTER_CONFIG
    if not path.is_file():
        return None
    values = json.loads(path.read_text(encoding="utf-8"))
    return AdapterBase(values["base_model_name_or_path"], values.get("revision"))


def target_layers(model: torch.nn.Module, targets: Sequence[str], *, family: Family) -> list[str]:
    """Full names of the linear layers that `targets` mean.

    A module group means all linear layers in it but the output head; any other target is the end of a layer's name.
    Raises ConfigError for a target that means none.
    """
    linear = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    chosen: dict[str, None] = {}
    for target in targets:
        if target in family.module_groups:
            found = [n for n in linear if n != _HEAD and module_group(f"{n}.weight", family) == target]
        else:
            found = [n for n in linear if _ends_with(n, target)]
        if not found:
            known = [*family.module_groups, *dict.fromkeys(map(_last_name, linear))]
            raise ConfigError(
                f"model.lora.targets: no linear layer is called {target!r}; known: {', '.join(known)}"
                f"{did_you_mean(target, known)}"
            )
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def _last_name(layer: str) -> str:
    """The last part of a layer's name, or the last two where that is a number.

    >>> _last_name("layers.0.self_attn.q_proj"), _last_name("visual.merger.mlp.2")
    ('q_proj', 'mlp.2')
    """
    *_, above, last = "", *layer.split(".")
    return f"{above}.{last}" if last.isdecimal() else last


def check_names(model: torch.nn.Module, lora: LoraSection, *, family: Family) -> list[str]:
    """`target_layers` of the section; ConfigError too for modules to save that are not there. No weight is read."""
    for name in lora.modules_to_save:
        if not any(_ends_with(module, name) for module, _ in model.named_modules()):
            raise ConfigError(f"model.lora.modules_to_save: no module is called {name!r}")
    return target_layers(model, lora.targets, family=family)


def add_adapter(model: Any, lora: LoraSection, *, section: ModelSection, family: Family) -> None:
    """Put fresh adapters into the model; nothing else has a gradient afterwards but `modules_to_save`.

    A fresh adapter changes nothing: one of its two matrices is zero. The other is drawn from `lora.seed` alone.
    """
    from peft import LoraConfig

    targets = check_names(model, lora, family=family)
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # declared as an integer, used as a factor
        lora_dropout=lora.dropout,
        use_rslora=lora.rslora,
        target_modules=targets,
        modules_to_save=list(lora.modules_to_save) or None,
        base_model_name_or_path=section.path,
        revision=section.revision,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(lora.seed)
        model.add_adapter(config)


def load_adapter(model: Any, folder: Path, *, lora: LoraSection | None = None) -> None:
    """Put the adapter of a folder into its base model. lora: what the configuration says of it, to train it further.

    Raises ConfigError where the two differ, and for weights that do not fit.
    """
    from peft import LoraConfig, set_peft_model_state_dict
    from safetensors.torch import load_file

    config: Any = LoraConfig.from_pretrained(str(folder))
    if lora is not None:
        _check_same(config, lora, folder=folder)
    config.inference_mode = False
    model.add_adapter(config)
    if not (folder / _ADAPTER_WEIGHTS).is_file():
        raise ConfigError(f"{folder}: {_ADAPTER_WEIGHTS} is missing; {remedy(folder)}")
    loaded = load_file(folder / _ADAPTER_WEIGHTS)
    result = set_peft_model_state_dict(model, {_bare(name): tensor for name, tensor in loaded.items()})
    missing = sorted(set(result.missing_keys) & trained_tensors(model).keys())
    if missing or result.unexpected_keys:
        names = ", ".join([*missing, *result.unexpected_keys][:5])
        raise ConfigError(f"{folder}: the adapter does not fit its base model (missing or unexpected: {names})")


def _ends_with(name: str, end: str) -> bool:
    return name == end or name.endswith(f".{end}")


def _bare(name: str) -> str:
    """A name of an adapter file without peft's prefix for its own wrapper."""
    return name.removeprefix("base_model.model.")


def _check_same(config: Any, lora: LoraSection, *, folder: Path) -> None:
    pairs = {
        "rank": (config.r, lora.rank),
        "alpha": (config.lora_alpha, lora.alpha),
        "rslora": (config.use_rslora, lora.rslora),
        "modules_to_save": (sorted(config.modules_to_save or ()), sorted(lora.modules_to_save)),
    }
    for key, (stored, wanted) in pairs.items():
        if stored != wanted and not (isinstance(stored, float) and math.isclose(stored, wanted)):
            raise ConfigError(f"model.lora.{key} is {wanted}, but the adapter in {folder} has {stored}; set it to that")
