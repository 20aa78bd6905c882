"""A policy from a model folder, and back into one."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmrl.config.schema import ModelSection
from mmrl.data.vision import VisionGeometry
from mmrl.errors import ConfigError
from mmrl.models.families import FamilyProcessor, load_geometry, load_processor
from mmrl.models.freeze import freeze
from mmrl.models.hub import model_folder, readable_model, without_progress_bars
from mmrl.models.lora import adapter_base, add_adapter, load_adapter
from mmrl.models.quantize import expect_no_kernels, keep_trainable, quantization_config
from mmrl.models.trained_with import checkpoint_settings

# What a model folder holds besides weights and configuration.
_PROCESSOR_FILES = (
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "*processor_config.json",
)
CHAT_TEMPLATE = "chat_template.jinja"
_LOADING_FAULTS = ("missing_keys", "unexpected_keys", "mismatched_keys")


def load_policy(section: ModelSection) -> tuple[Any, FamilyProcessor]:
    """The model, ready to train (train mode, what is trained chosen, gradient checkpointing), and its processor.

    `section.path` may be the folder of a LoRA adapter: its base is loaded, and with `section.lora` the adapter is
    trained further. Raises ConfigError for a folder that is no model of a known family, and for weights that do not
    fit: transformers would fill them with random numbers and warn.
    """
    processor = processor_of(section)
    model, adapter = _load_base(section)
    if section.lora is None:
        _refuse_adapter(section, adapter)
        freeze(model, section.freeze, family=processor.family, layers=section.freeze_layers)
    elif adapter is not None:
        load_adapter(model, adapter, lora=section.lora)
    else:
        add_adapter(model, section.lora, section=section, family=processor.family)
    if section.gradient_checkpointing:
        # The non-reentrant kind: the other one gives no gradient where a block's input needs none (a frozen tower).
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    return model, processor


def load_weights(section: ModelSection) -> Any:
    """The transformers model in eval mode, as `section` says; the folder of an adapter gives base and adapter."""
    model, adapter = _load_base(section)
    if adapter is not None:
        load_adapter(model, adapter)
    return model.eval()


def skeleton(section: ModelSection) -> Any:
    """The section's model, without adapter, on the meta device: names and shapes, no numbers. Takes a second."""
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    folder, _ = _folders(section, weights=False)
    remote = section.trust_remote_code
    with readable_model(folder), torch.device("meta"):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=remote, local_files_only=True)
        return AutoModelForImageTextToText.from_config(config, trust_remote_code=remote)


def processor_of(section: ModelSection) -> FamilyProcessor:
    """The processor of the section's model, writing places and told of thinking as the section says.

    Where the section says nothing, the settings saved with a trained model hold (its chat template among them), then
    the family's. An adapter's processor is its base's.
    """
    folder, adapter = _folders(section, weights=False)
    saved = checkpoint_settings(adapter or folder)
    template = section.chat_template
    if adapter is not None and template is None and (adapter / CHAT_TEMPLATE).is_file():
        template = str(adapter / CHAT_TEMPLATE)
    processor = load_processor(folder, chat_template=template, trust_remote_code=section.trust_remote_code)
    changes = {}
    for name in ("box_space", "time_space", "enable_thinking"):
        said = getattr(section, name)
        changes[name] = said if said is not None else getattr(saved or processor, name)
    if changes["enable_thinking"] is not None and "enable_thinking" not in processor.chat_template:
        raise ConfigError(
            f"model.enable_thinking is {changes['enable_thinking']}, but the chat template of {section.path} does not "
            "ask for it; set it to null, or name another model.chat_template"
        )
    if changes["box_space"] == "model_px" and not processor.geometry.has_model_pixels:
        raise ConfigError(
            f"model.box_space is model_px, but the {processor.family.name} family sees a picture in tiles or squeezed, "
            "so pixels it sees name no place; use 0..1000 or 0..1"
        )
    return dataclasses.replace(processor, **changes)


def geometry_of(section: ModelSection) -> VisionGeometry:
    """All that opening media needs of the section's model; no weights and no tokenizer are read."""
    return load_geometry(_folders(section, weights=False)[0])


def source_folders(section: ModelSection) -> list[Path]:
    """The folders that the section's model is read from: its own and, where that is an adapter's, its base's."""
    folder, adapter = _folders(section, weights=False)
    return [folder] if adapter is None else [adapter, folder]


def _folders(section: ModelSection, *, weights: bool) -> tuple[Path, Path | None]:
    """The folder of the model, and that of the adapter where `section.path` names one (the model is then its base)."""
    folder = model_folder(section, weights=weights)
    base = adapter_base(folder)
    if base is None:
        return folder, None
    return model_folder(section.model_copy(update=dataclasses.asdict(base)), weights=weights), folder


def _load_base(section: ModelSection) -> tuple[Any, Path | None]:
    """The transformers model in eval mode, without adapter, of the section's type, attention and quantization.

    Also the folder of the adapter that `section.path` names, or None.
    """
    import torch
    from transformers import AutoModelForImageTextToText

    if section.quantization is None:
        expect_no_kernels()
    folder, adapter = _folders(section, weights=True)
    with readable_model(folder), without_progress_bars():
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            folder,
            dtype=getattr(torch, section.dtype),
            attn_implementation=section.attention,
            quantization_config=quantization_config(section),
            trust_remote_code=section.trust_remote_code,
            local_files_only=True,
            output_loading_info=True,
        )
    model, info = loaded
    problems = [f"{kind.replace('_', ' ')}: {_listed(info[kind])}" for kind in _LOADING_FAULTS if info.get(kind)]
    if problems:
        raise ConfigError(f"{folder}: the weights do not fit the model; {'; '.join(problems)}")
    keep_trainable(model)
    return model, adapter


def _refuse_adapter(section: ModelSection, adapter: Path | None) -> None:
    if adapter is not None:
        raise ConfigError(
            f"{section.path} is a LoRA adapter; set model.lora to train it further, or merge it into its base with "
            "tools/merge_lora.py"
        )


def save_model(
    model: Any, processor: FamilyProcessor, out_dir: Path | str, *, weights: Mapping[str, Any] | None = None
) -> None:
    """Write an ordinary model folder: weights under the base model's own keys, tokenizer and processor files copied.

    `from_pretrained` of the model, the tokenizer and the processor read it, and so does `load_policy`. Of a model with
    a LoRA adapter only the adapter is written, in peft's own format. The chat template is the one that was used.
    weights: tensors by name, for a model that does not hold its own.
    """
    out_dir = Path(out_dir)
    with without_progress_bars():
        model.save_pretrained(out_dir, state_dict=weights)
    for pattern in _PROCESSOR_FILES:
        for path in sorted(processor.folder.glob(pattern)):
            shutil.copyfile(path, out_dir / path.name)
    (out_dir / CHAT_TEMPLATE).write_text(processor.chat_template, encoding="utf-8")


def _listed(keys: Any) -> str:
    names = sorted(str(key) for key in keys)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
