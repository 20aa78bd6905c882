"""The value head of a run, beside the policy: its own file in checkpoints, never part of the model folder."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from mmrl.algorithms.algorithm import build_algorithm
from mmrl.config.schema import RunConfig
from mmrl.errors import CheckpointError
from mmrl.models.logprobs import ValueHead

VALUE_FILE = "value_head.safetensors"


def value_head_for(config: RunConfig, model: torch.nn.Module) -> ValueHead | None:
    """A fresh head where the algorithm of a grpo stage needs values."""
    if not any(stage.kind == "grpo" for stage in config.stages):
        return None
    algorithm = build_algorithm(config.algorithm, max_new_tokens=config.rollout.max_new_tokens)
    return ValueHead(model, detach=config.algorithm.value.detach) if algorithm.has_value_head else None


def save_value_head(head: ValueHead, checkpoint: Path) -> None:
    save_file({name: tensor.cpu().contiguous() for name, tensor in head.state_dict().items()}, checkpoint / VALUE_FILE)


def load_value_head(head: ValueHead, checkpoint: Path) -> None:
    """Continue from a checkpoint. CheckpointError for one that was written without a value head."""
    path = checkpoint / VALUE_FILE
    if not path.is_file():
        raise CheckpointError(
            f"{path} is missing: the run was begun without a value head; begin another run (name=...) with"
            f" model.path={checkpoint / 'model'}"
        )
    head.load_state_dict(load_file(path))
