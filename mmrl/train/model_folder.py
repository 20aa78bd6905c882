"""The model folder of a checkpoint: weights or adapter, processor, and what it was trained with."""

from __future__ import annotations

from pathlib import Path

from mmrl.models.load import save_model
from mmrl.models.trained_with import trained_with, write_trained_with
from mmrl.train.runtime import Runtime


def save_policy_folder(run: Runtime, folder: Path) -> None:
    """Write an ordinary model folder (with LoRA an adapter's, in peft's format) plus mmrl.json: budgets, spaces,
    templates, chat template, and the base model with its commit.

    Evaluation reads mmrl.json, so a model trained on 40,000-pixel pictures is not scored on others by default.
    """
    save_model(run.policy, run.processor, folder)
    write_trained_with(trained_with(run.config, run.processor, policy_version=run.policy_version), folder)
