"""Contradictions around what is trained and for how long; part of mmrl.config.checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mmrl.errors import ConfigError
from mmrl.models.hub import is_hub_id
from mmrl.models.layers import read_ranges

if TYPE_CHECKING:
    from mmrl.config.checks import Located

GROUPS = ("vision_tower", "projector", "language_model")


def check_model(run: Located) -> Iterator[str]:
    model = run.config.model
    if model.revision is not None and not is_hub_id(model.path):
        fact = f"'model.revision' is set but 'model.path' ({model.path}) is a folder, which has no revisions"
        yield run.at("model.revision", f"{fact}; remove it, or name a hub id (ORG/NAME)")
    if model.lora is not None and model.freeze:
        fact = "'model.freeze' is set beside 'model.lora', which freezes all weights anyway"
        yield run.at("model.freeze", f"{fact}; remove it, and choose what is trained by 'model.lora.targets'")
    if model.lora is not None and model.freeze_layers:
        fact = "'model.freeze_layers' is set beside 'model.lora', which freezes all weights anyway"
        remedy = "remove it, and choose what is trained by 'model.lora.targets' (names such as layers.3.mlp.up_proj)"
        yield run.at("model.freeze_layers", f"{fact}; {remedy}")
    try:
        read_ranges(model.freeze_layers, where="'model.freeze_layers'")
    except ConfigError as error:
        yield run.at("model.freeze_layers", str(error))
    if len(set(model.freeze)) == len(GROUPS):
        fact = "'model.freeze' names every module group, so nothing would be trained"
        yield run.at("model.freeze", f"{fact}; leave out one of {', '.join(GROUPS)}")
    if model.quantization is not None and model.lora is None:
        fact = f"'model.quantization' is {model.quantization!r} but quantized weights cannot be trained"
        yield run.at("model.quantization", f"{fact}; set 'model.lora' to train adapters over them, or remove it")
    if model.lora is not None and model.lora.dropout and run.has_grpo:
        fact = f"'model.lora.dropout' is {model.lora.dropout:g} but completions of grpo stages are sampled without it"
        yield run.at("model.lora.dropout", f"{fact}, so ratios would measure the dropout; set it to 0")
    elif model.lora is not None and model.lora.dropout and any(s.kind == "dpo" for s in run.config.stages):
        fact = f"'model.lora.dropout' is {model.lora.dropout:g} but a dpo stage compares with a reference without it"
        yield run.at("model.lora.dropout", f"{fact}, so margins would measure the dropout; set it to 0")


def check_training_options(run: Located) -> Iterator[str]:
    config = run.config
    if config.train.ema_decay is not None and config.train.zero_stage == 3:
        fact = "'train.ema_decay' is set but 'train.zero_stage' is 3, where no process has whole weights to average"
        yield run.at("train.ema_decay", f"{fact}; set it to null, or use zero_stage 2 or lower")
    yield from _offload_problems(run)
    if config.train.optimizer == "muon" and config.train.zero_stage == 0 and config.model.dtype == "bfloat16":
        fact = "'train.optimizer' is muon with 'model.dtype' bfloat16 and 'train.zero_stage' 0, where DeepSpeed keeps"
        yield run.at("train.optimizer", f"{fact} flat weights that are no matrices any more; use zero_stage 1 or 2")
    for i, stage in enumerate(config.stages):
        key, measured = f"stages.{i}.early_stop", bool(config.validation.every and (stage.data or config.data).val)
        if stage.early_stop is not None and not measured:
            fact = f"'{key}' is set but the stage is not validated while it runs"
            yield run.at(key, f"{fact}; set 'validation.every' and list held-out rows in 'data.val'")


def _offload_problems(run: Located) -> Iterator[str]:
    train, quantization = run.config.train, run.config.model.quantization
    needed = {None: 0, "optimizer": 1, "parameters": 3}[train.offload]
    if train.zero_stage < needed:
        fact = f"'train.offload' is {train.offload!r} but 'train.zero_stage' is {train.zero_stage}"
        yield run.at("train.offload", f"{fact}, which cannot; set zero_stage to {needed} or higher, or offload to null")
    if quantization is not None and train.zero_stage == 3:
        fact = f"'model.quantization' is {quantization!r} and 'train.zero_stage' is 3, which cuts packed weights apart"
        yield run.at("train.zero_stage", f"{fact}; use zero_stage 2 or lower")
