"""The reference policy of a stage: the policy as it was when the stage began, frozen."""

from __future__ import annotations

import shutil
from pathlib import Path

from mmrl.config.schema import StageSection
from mmrl.models.load import load_policy, save_model
from mmrl.models.logprobs import LogprobModule
from mmrl.train import distributed
from mmrl.train.runtime import Runtime


def open_reference(run: Runtime, section: StageSection) -> LogprobModule:
    """Load `reference/<stage>` of the run folder, writing it first when the stage has not begun before.

    A resumed run finds the folder and so compares with the same policy as the run it continues.
    """
    folder = run.folder / "reference" / section.name
    if distributed.is_main() and not folder.is_dir():
        _write_whole(run, folder)
    distributed.barrier()
    frozen = run.config.model.model_copy(update={"path": str(folder), "gradient_checkpointing": False, "freeze": ()})
    model, _ = load_policy(frozen)
    return LogprobModule(model.to(distributed.device()).requires_grad_(False).eval())


def _write_whole(run: Runtime, folder: Path) -> None:
    building = folder.with_name(f".building-{folder.name}")
    shutil.rmtree(building, ignore_errors=True)
    building.parent.mkdir(parents=True, exist_ok=True)
    save_model(run.policy, run.processor.folder, building)
    building.rename(folder)
