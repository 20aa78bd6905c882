"""`mmrl export`: a checkpoint as a folder that transformers, vLLM and others load, with all that belongs to it.

Weights, tokenizer, chat template and generation settings as they were trained, and the training's pixel budgets in the
processor's own files, so that every tool shows the model pictures of the sizes it knows.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from mmrl.errors import CheckpointError, ConfigError
from mmrl.models.families import load_geometry
from mmrl.models.lora import ADAPTER_CONFIG
from mmrl.models.merge import merge_lora
from mmrl.models.processor_config import write_budgets
from mmrl.models.trained_with import checkpoint_settings
from mmrl.training.checkpoint import checkpoint_name, find_checkpoints
from mmrl.training.ema import AVERAGED

Weights = Literal["raw", "average"]


def export_command(run: Path, out: Path, *, step: str, merge: bool, weights: Weights | None = None) -> int:
    """Write the model of a checkpoint to `out` and say what it holds. Returns 0.

    step: `best`, `latest` or a number. merge: add a LoRA adapter's changes to its base's weights; without it the folder
    is the adapter's. weights: of a run with `train.ema_decay` the averages or those that were trained; None: the
    averages where there are any. Raises CheckpointError or ConfigError.
    """
    checkpoint = find_checkpoint(run, step)
    model, which = _model_folder(checkpoint, weights)
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} holds files already; name another folder")
    is_adapter = (model / ADAPTER_CONFIG).is_file()
    if merge and not is_adapter:
        raise ConfigError(f"{checkpoint}: a whole model, there is no adapter to merge; leave --merge-lora out")
    building = out.with_name(f".building-{out.name}")
    shutil.rmtree(building, ignore_errors=True)
    if merge:
        merge_lora(None, model, building)
    else:
        shutil.copytree(model, building)
    budgets = ""
    if not is_adapter or merge:
        budgets = _write_trained_budgets(building)
    building.rename(out)
    kind = "LoRA adapter" if is_adapter and not merge else "model"
    print(f"{out}: {kind} of {checkpoint.name}{which}{budgets}")
    return 0


def _model_folder(checkpoint: Path, weights: Weights | None) -> tuple[Path, str]:
    """The folder of the weights, and the text that says which they are where there are two kinds."""
    averaged = checkpoint / AVERAGED
    if not averaged.is_dir():
        if weights == "average":
            raise ConfigError(f"{checkpoint}: no averaged weights (train.ema_decay was null); leave --weights out")
        return checkpoint / "model", ""
    if weights == "raw":
        return checkpoint / "model", ", raw weights (--weights average: the averages, which validations scored)"
    return averaged, ", averaged weights, which validations scored (--weights raw: those that were trained)"


def find_checkpoint(run: Path, step: str) -> Path:
    """The checkpoint of a run folder that `step` names. `run` may be a checkpoint itself."""
    if (run / "model").is_dir():
        return run
    found = {path.name: path for path in find_checkpoints(run)}
    if not found:
        raise CheckpointError(f"{run}: no complete checkpoint here; name a run folder, `mmrl runs` lists them")
    if step in ("best", "latest"):
        link = run / "checkpoints" / step
        if link.exists():
            return found[link.resolve().name]
        remedy = "no score was watched (checkpoint.best); use --step latest"
        raise CheckpointError(f"{run}: no {step} checkpoint, {remedy}")
    name = checkpoint_name(int(step)) if step.isdecimal() else step
    if name not in found:
        raise CheckpointError(f"{run}: no checkpoint of step {step!r}; there are: {', '.join(found)}, best, latest")
    return found[name]


def _write_trained_budgets(folder: Path) -> str:
    """Put the training's budgets into the processor files; the text that says so."""
    settings = checkpoint_settings(folder)
    if settings is None:
        return ""
    write_budgets(folder, settings.budgets, load_geometry(folder))
    said = [
        f"{kind} {settings.budgets[kind].max_pixels:,} pixels"
        for kind in ("image", "video")
        if kind in settings.budgets
    ]
    return f", budgets {', '.join(said)}"
