"""Contradictions between keys of the model, and between them and the stages; part of mmrl.config.checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mmrl.models.hub import is_hub_id

if TYPE_CHECKING:
    from mmrl.config.checks import Located


def check_model(run: Located) -> Iterator[str]:
    model = run.config.model
    if model.revision is not None and not is_hub_id(model.path):
        fact = f"'model.revision' is set but 'model.path' ({model.path}) is a folder, which has no revisions"
        yield run.at("model.revision", f"{fact}; remove it, or name a hub id (ORG/NAME)")
    if model.lora is not None and model.freeze:
        fact = "'model.freeze' is set beside 'model.lora', which freezes all weights anyway"
        yield run.at("model.freeze", f"{fact}; remove it, and choose what is trained by 'model.lora.targets'")
    if model.quantization is not None and model.lora is None:
        fact = f"'model.quantization' is {model.quantization!r} but quantized weights cannot be trained"
        yield run.at("model.quantization", f"{fact}; set 'model.lora' to train adapters over them, or remove it")
    if model.lora is not None and model.lora.dropout and run.has_grpo:
        fact = f"'model.lora.dropout' is {model.lora.dropout:g} but completions of grpo stages are sampled without it"
        yield run.at("model.lora.dropout", f"{fact}, so ratios would measure the dropout; set it to 0")
