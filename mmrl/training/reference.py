"""The reference policy of a stage: the policy as it was when the stage began, frozen."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from mmrl.algorithms.batch import MicroBatch
from mmrl.config.schema import ModelSection, StageSection
from mmrl.models.families import FamilyProcessor
from mmrl.models.load import load_weights, save_model
from mmrl.models.logprobs import LogprobModule, LogprobResult
from mmrl.models.trained import trained_tensors
from mmrl.training import distributed
from mmrl.training.media_cache import reads_pixels
from mmrl.training.model_folder import policy_weights
from mmrl.training.runtime import Runtime
from mmrl.training.zero import build_engine, engine_config, swapped_weights

Reference = Callable[..., LogprobResult]
_ADAPTERS = "adapters.safetensors"


@dataclass(frozen=True)
class AdapterReference:
    """The policy's own model with the adapters it had when the stage began: no second copy of the model.

    In a run's first stage those adapters change nothing yet, so the reference is the base model.
    """

    policy: torch.nn.Module
    trainer: Any
    adapters: dict[str, torch.Tensor]

    def __call__(self, micro: MicroBatch, processor: FamilyProcessor, **options: Any) -> LogprobResult:
        with torch.no_grad(), swapped_weights(self.policy, self.adapters):
            return self.trainer(micro, processor, **options)


def open_reference(run: Runtime, section: StageSection) -> Reference:
    """The reference kept in `reference/<stage>` of the run folder, which is written when the stage first begins.

    A resumed run finds the folder and so compares with the same policy as the run it continues.
    """
    folder = run.folder / "reference" / section.name
    if not distributed.on_main(folder.is_dir):
        weights = policy_weights(run)
        distributed.on_main(lambda: _write_whole(run, folder, weights))
    if run.config.model.lora is not None:
        device = distributed.device()
        adapters = {n: t.to(device) for n, t in load_file(folder / _ADAPTERS).items()}
        return AdapterReference(run.policy, run.trainer, adapters)
    return open_frozen(run, run.config.model.model_copy(update={"path": str(folder)}))


def open_frozen(run: Runtime, section: ModelSection) -> Reference:
    """A model that is only read. The engine of the policy prepares it too: both are partitioned, or neither is
    (fault 57).
    """
    model = distributed.together(lambda: load_weights(section)).requires_grad_(False)
    other_eyes = reads_pixels(run.cache, model, run.processor)
    opened: Any
    if run.config.train.zero_stage == 3:
        opened = build_engine(model, None, engine_config(model_section=run.config.model, train=run.config.train))
    else:
        opened = LogprobModule(model.to(distributed.device()))
    opened.reads_pixels = other_eyes
    return opened


def _write_whole(run: Runtime, folder: Path, weights: dict[str, torch.Tensor] | None) -> None:
    building = folder.with_name(f".building-{folder.name}")
    shutil.rmtree(building, ignore_errors=True)
    building.parent.mkdir(parents=True, exist_ok=True)
    if run.config.model.lora is not None:
        building.mkdir()
        save_file(trained_tensors(run.policy) if weights is None else weights, building / _ADAPTERS)
    else:
        save_model(run.policy, run.processor, building, weights=weights)
    building.rename(folder)
