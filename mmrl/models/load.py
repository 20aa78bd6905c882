"""A policy from a model folder, and back into one."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

from mmrl.config.schema import ModelSection
from mmrl.errors import ConfigError
from mmrl.models.families import FamilyProcessor, load_processor
from mmrl.models.freeze import freeze

# What a model folder holds besides weights and configuration.
_PROCESSOR_FILES = (
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "chat_template*",
    "*processor_config.json",
)
_LOADING_FAULTS = ("missing_keys", "unexpected_keys", "mismatched_keys")


def load_policy(section: ModelSection) -> tuple[Any, FamilyProcessor]:
    """The model, ready to train (train mode, frozen groups, gradient checkpointing), and its processor.

    Raises ConfigError for a folder that is no model of a known family, and for weights that do not fit: transformers
    would fill them with random numbers and warn.
    """
    processor = processor_of(section)
    model = load_weights(section)
    freeze(model, section.freeze, family=processor.family)
    if section.gradient_checkpointing:
        # The non-reentrant kind: the other one gives no gradient where a block's input needs none (a frozen tower).
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    return model, processor


def processor_of(section: ModelSection) -> FamilyProcessor:
    """The processor of the section's folder, writing places in the section's spaces where it names any."""
    spaces = {"box_space": section.box_space, "time_space": section.time_space}
    return dataclasses.replace(load_processor(section.path), **{name: space for name, space in spaces.items() if space})


def load_weights(section: ModelSection) -> Any:
    """The transformers model alone, in eval mode, as `section` says: type and attention."""
    import torch
    from transformers import AutoModelForImageTextToText

    loaded: Any = AutoModelForImageTextToText.from_pretrained(
        section.path,
        dtype=getattr(torch, section.dtype),
        attn_implementation=section.attention,
        local_files_only=True,
        output_loading_info=True,
    )
    model, info = loaded
    problems = [f"{kind.replace('_', ' ')}: {_listed(info[kind])}" for kind in _LOADING_FAULTS if info.get(kind)]
    if problems:
        raise ConfigError(f"{section.path}: the weights do not fit the model; {'; '.join(problems)}")
    return model


def save_model(model: Any, processor_source_dir: Path | str, out_dir: Path | str) -> None:
    """Write an ordinary model folder: weights under the base model's own keys, tokenizer and processor files copied.

    `from_pretrained` of the model, the tokenizer and the processor read it, and so does `load_policy`.
    """
    out_dir = Path(out_dir)
    model.save_pretrained(out_dir)
    for pattern in _PROCESSOR_FILES:
        for path in sorted(Path(processor_source_dir).glob(pattern)):
            shutil.copyfile(path, out_dir / path.name)


def _listed(keys: Any) -> str:
    names = sorted(str(key) for key in keys)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
