"""The model folders of a checkpoint: weights or adapter, processor, and what it was trained with."""

from __future__ import annotations

from pathlib import Path

import torch

from mmrl.models.load import save_model
from mmrl.models.trained_with import trained_with, write_trained_with
from mmrl.training.ema import AVERAGED
from mmrl.training.runtime import Runtime
from mmrl.training.value_head import save_value_head
from mmrl.training.zero import collected_tensors, is_partitioned


def policy_weights(run: Runtime) -> dict[str, torch.Tensor] | None:
    """What `save_policy_folder` writes, whole, on the main process; None where the model itself has it. Collective."""
    return _whole(run, run.policy)


def beside_weights(run: Runtime) -> dict[str, dict[str, torch.Tensor] | None]:
    """The same of the models that are trained beside the policy, for `save_beside`."""
    return {name: _whole(run, engine.module.model) for name, engine in run.beside.items()}


def save_beside(run: Runtime, checkpoint: Path, weights: dict[str, dict[str, torch.Tensor] | None]) -> None:
    """Write `beside/NAME`, an ordinary model folder, for each model that is trained beside the policy."""
    for name, engine in run.beside.items():
        save_model(engine.module.model, run.processor, checkpoint / "beside" / name, weights=weights[name])


def _whole(run: Runtime, model: torch.nn.Module) -> dict[str, torch.Tensor] | None:
    if not is_partitioned(model):
        return None
    named = model.named_parameters(remove_duplicate=False)
    return collected_tensors((n, p) for n, p in named if p.requires_grad or run.config.model.lora is None)


def save_policy_folder(run: Runtime, folder: Path, weights: dict[str, torch.Tensor] | None) -> None:
    """Write `folder`, an ordinary model folder (with LoRA an adapter's, in peft's format), and mmrl.json in it.

    weights: those of `policy_weights`.

    Where the run averages its weights, the averages are written beside it: `ema.safetensors`, from which the run
    continues, and `model_ema/`, a model folder like the other one, which is what validations scored. A value head has a
    file there too.
    """
    _save(run, folder, weights)
    if run.value_head is not None:
        save_value_head(run.value_head, folder.parent)
    if run.ema is not None:
        run.ema.save(folder.parent)
        with run.ema.applied(run.policy):
            _save(run, folder.with_name(AVERAGED), None)


def _save(run: Runtime, folder: Path, weights: dict[str, torch.Tensor] | None) -> None:
    """mmrl.json holds budgets, spaces, templates and base model: whoever evaluates the model does as training did."""
    save_model(run.policy, run.processor, folder, weights=weights)
    write_trained_with(trained_with(run.config, run.processor, policy_version=run.policy_version), folder)
