"""From a base model and its LoRA adapter to one ordinary model folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch

from mmrl.config.schema import ModelSection
from mmrl.errors import ConfigError
from mmrl.models.hub import model_folder
from mmrl.models.load import load_weights, processor_of, save_model
from mmrl.models.lora import ADAPTER_CONFIG, adapter_base
from mmrl.models.quantize import expect_no_kernels
from mmrl.models.trained_with import TRAINED_WITH


def merge_lora(model_dir: Path | str | None, adapter_dir: Path | str, out_dir: Path | str) -> None:
    """Write the base model with the adapter's changes added to its weights, as an ordinary model folder.

    model_dir: the base, a folder or hub id; None: the one that the adapter names. Sums are made in float32 and stored
    in the type the base is stored in. The chat template and mmrl.json are the adapter folder's where it has them.

    Raises ConfigError for an `adapter_dir` without an adapter, and for an `out_dir` that holds files already.
    """
    expect_no_kernels()
    from peft import PeftModel

    adapter, out = Path(adapter_dir), Path(out_dir)
    named = adapter_base(adapter)
    if named is None:
        raise ConfigError(f"{adapter}: {ADAPTER_CONFIG} is missing; name the folder of a LoRA adapter")
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} holds files already; name another folder for the merged model")
    revision = named.revision if model_dir is None else None
    base = ModelSection(path=str(model_dir or named.path), revision=revision, dtype="float32")
    model = PeftModel.from_pretrained(load_weights(base), str(adapter)).merge_and_unload()
    model.to(_stored_type(model_folder(base, weights=False)))
    save_model(model, processor_of(ModelSection(path=str(adapter), revision=revision)), out)
    if (adapter / TRAINED_WITH).is_file():
        shutil.copyfile(adapter / TRAINED_WITH, out / TRAINED_WITH)


def _stored_type(folder: Path) -> torch.dtype:
    """The type config.json states for the weights; float32 where it states none."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return getattr(torch, config.get("dtype") or config.get("torch_dtype") or "float32")
