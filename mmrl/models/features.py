"""What the vision modules of a model make of a medium, and when it may be kept: those modules' weights and settings.

The vision modules are all between pixels and the language model: the groups `vision_tower` and `projector` of the
family's table, with deepstack mergers and newline tokens. While none of them is trained and none has an adapter,
their output is a function of the pixels alone.

Shape letters: K vision tokens, D hidden size of the language model.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Any

import torch
import xxhash

from mmrl.config.schema import ModelSection
from mmrl.data.rendered import MediaEntry, MediumFeatures, with_pixels
from mmrl.errors import ConfigError
from mmrl.models.encode import encode_media
from mmrl.models.families import FamilyProcessor
from mmrl.models.family import Family
from mmrl.models.freeze import module_group

VISION_GROUPS = ("vision_tower", "projector")
STORED = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


def _prefixes(family: Family) -> tuple[str, ...]:
    return tuple(prefix for group in VISION_GROUPS for prefix in family.module_groups[group])


def vision_tensors(model: torch.nn.Module, family: Family) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and tensor of everything that decides the output of the vision modules, in the order of the names.

    Parameters, adapters' included, and buffers that are saved; other buffers follow from the configuration.
    """
    saved = model.state_dict(keep_vars=True)
    for name in sorted(saved):
        if name.startswith(_prefixes(family)):
            yield name, saved[name]


def trained_vision(model: torch.nn.Module, family: Family) -> list[str]:
    """Names of the vision modules' parameters that are trained; empty while their output may be kept."""
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and module_group(name, family) in VISION_GROUPS
    ]


def weights_fingerprint(model: torch.nn.Module, family: Family) -> str:
    """xxh3-128 (hex) over names, shapes, types and values of `vision_tensors`, as they lie in memory.

    Taken from the loaded weights, not from their files: a file in another type, or from before a training, would name
    other values. A gigabyte takes about 30 ms. The weights must be whole (before ZeRO-3 cuts them apart).
    """
    digest = xxhash.xxh3_128()
    for name, tensor in vision_tensors(model, family):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True)
class VisionEncoder:
    """The vision modules of a loaded model. Equal `settings` make equal features of equal pixels.

    settings: JSON values: fingerprint of the weights, type, attention, quantization, library versions, normalisation.
    model: runs them; its other modules are not used.
    """

    model: Any
    processor: FamilyProcessor
    settings: dict[str, Any]

    @classmethod
    def of(
        cls, model: Any, processor: FamilyProcessor, section: ModelSection, *, copies: bool = False
    ) -> VisionEncoder:
        """copies: with copies of the modules, for a model that is about to be partitioned over processes."""
        settings = {
            "family": processor.family.name,
            "weights": weights_fingerprint(model, processor.family),
            "dtype": section.dtype,
            "attention": section.attention,
            "quantization": section.quantization,
            "image_mean": list(processor.geometry.image_mean),
            "image_std": list(processor.geometry.image_std),
            "rescale_factor": processor.geometry.rescale_factor,
            "transformers": version("transformers"),
        }
        return cls(_vision_only(model) if copies else model, processor, settings)

    @cached_property
    def _modules(self) -> list[torch.nn.Module]:
        prefixes = _prefixes(self.processor.family)
        return [module for name, module in self.model.named_modules() if f"{name}.".startswith(prefixes)]

    @property
    def weights(self) -> str:
        """The fingerprint of the weights."""
        return self.settings["weights"]

    def encode(self, entry: MediaEntry) -> MediumFeatures:
        """Features of one medium, on the CPU, in the model's type.

        One medium at a time: what is stored then does not depend on what was encoded beside it. The vision modules are
        in eval mode from then on, the rest of the model stays as it is: another thread may be training it.
        """
        for module in self._modules:
            module.training = False
        with torch.no_grad():
            [features] = encode_media(self.model, [with_pixels(entry)], self.processor)
        tokens_KD, *deepstack = (level.cpu() for level in (features.tokens_KD, *features.deepstack))
        return MediumFeatures(features.kind, tokens_KD, tuple(deepstack))


def check_frozen(model: torch.nn.Module, family: Family) -> None:
    """ConfigError where vision modules are trained: for `cache.level: features`."""
    trained = trained_vision(model, family)
    if trained:
        raise ConfigError(
            f"'cache.level' is features but {len(trained)} parameters between pixels and language model are trained "
            f"({trained[0]}, ...); name vision_tower and projector in 'model.freeze', keep 'model.lora.targets' to the "
            "language model, or set 'cache.level' to auto or pixels"
        )


def _vision_only(model: Any) -> Any:
    """A copy of the model without language model; its head stays, as a tensor that knows device and type."""
    base = model.model
    name = "language_model" if hasattr(base, "language_model") else "text_model"
    decoder, head = getattr(base, name), model.lm_head
    try:
        setattr(base, name, None)
        model.lm_head = None
        copied = copy.deepcopy(model).requires_grad_(False)
    finally:
        setattr(base, name, decoder)
        model.lm_head = head
    copied.lm_head = torch.nn.Linear(1, 1, bias=False, dtype=head.weight.dtype)
    return copied
