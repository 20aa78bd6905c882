"""Base weights in 4 or 8 bits (QLoRA), by bitsandbytes."""

from __future__ import annotations

import importlib.util
import logging
from typing import Any

import torch

from mmrl.config.schema import ModelSection
from mmrl.errors import ConfigError

_EXTRA = "pip install 'mmrl[quantized]'"


def require_bitsandbytes(key: str) -> None:
    """ConfigError, naming the key that asked for it and the extra that brings it, where bitsandbytes is missing."""
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigError(f"{key} needs the package bitsandbytes, which is not installed: {_EXTRA}")


def quantization_config(section: ModelSection) -> Any:
    """How transformers quantizes linear layers while it loads them; None: not at all. The output head stays whole.

    nf4: 4 bits of normal-float with double quantization, computed in `section.dtype`. int8: 8 bits, outliers apart.
    """
    if section.quantization is None:
        return None
    require_bitsandbytes(f"model.quantization {section.quantization!r}")
    from transformers import BitsAndBytesConfig

    if section.quantization == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=section.dtype,
    )


def expect_no_kernels() -> None:
    """Nothing of bitsandbytes will run: peft imports it, and its complaint of a 4-bit kernel would mislead."""
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)


def keep_trainable(model: torch.nn.Module) -> None:
    """Keep 4-bit weights in the one layout that both rollouts and training passes read.

    On CPUs with AVX-512 BF16 bitsandbytes rewrites them, at the first pass in eval mode, into one that has no gradient.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False  # type: ignore[assignment]
