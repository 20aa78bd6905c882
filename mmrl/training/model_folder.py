"""The model folders of a checkpoint: weights or adapter, processor, and what it was trained with."""

from __future__ import annotations

from pathlib import Path

from mmrl.models.load import save_model
from mmrl.models.trained_with import trained_with, write_trained_with
from mmrl.training.runtime import Runtime

AVERAGED = "model_ema"


def save_policy_folder(run: Runtime, folder: Path) -> None:
    """Write `folder`, an ordinary model folder (with LoRA an adapter's, in peft's format), and mmrl.json in it.

    Where the run averages its weights, the averages are written beside it: `ema.safetensors`, from which the run
    continues, and `model_ema/`, a model folder like the other one, which is what validations scored.
    """
    _save(run, folder)
    if run.ema is not None:
        run.ema.save(folder.parent)
        with run.evaluated():
            _save(run, folder.with_name(AVERAGED))


def _save(run: Runtime, folder: Path) -> None:
    """mmrl.json holds budgets, spaces, templates and base model: whoever evaluates the model does as training did."""
    save_model(run.policy, run.processor, folder)
    write_trained_with(trained_with(run.config, run.processor, policy_version=run.policy_version), folder)
