"""Model folders and run folders as a training leaves them, without the training."""

import dataclasses
import shutil
from pathlib import Path

from makers.configs import BUDGETS
from makers.tiny_models import tiny_model_dir

from mmrl.config.schema import RunConfig
from mmrl.models.families import load_processor
from mmrl.models.trained_with import trained_with, write_trained_with
from mmrl.training.trackers import TrackedRun

USER_TEMPLATE = "{prompt} Answer briefly."


def trained_model_dir(folder: Path, kind: str = "qwen2_5_vl", **data: object) -> Path:
    """A tiny model with the mmrl.json of a run that had BUDGETS, a template of its own and boxes in 0..100."""
    shutil.copytree(tiny_model_dir(kind), folder)
    config = RunConfig.model_validate(
        {
            "model": {"path": str(tiny_model_dir(kind))},
            "budgets": BUDGETS,
            "data": {"user_template": USER_TEMPLATE, "task_templates": {"count": "Count! {prompt}"}, **data},
        }
    )
    processor = dataclasses.replace(load_processor(folder), box_space="0..100")
    write_trained_with(trained_with(config, processor, policy_version=7), folder)
    return folder


def run_dir(folder: Path, steps: tuple[int, ...] = (3, 6), *, best: int | None = 3) -> Path:
    """A run folder with complete checkpoints of these steps and the links `latest` and `best`."""
    for step in steps:
        checkpoint = folder / "checkpoints" / f"step-{step:06d}"
        trained_model_dir(checkpoint / "model")
        (checkpoint / "COMPLETE").touch()
    (folder / "checkpoints" / "latest").symlink_to(f"step-{steps[-1]:06d}")
    if best is not None:
        (folder / "checkpoints" / "best").symlink_to(f"step-{best:06d}")
    return folder


def tracked(folder: Path, *, next_step: int | None = None) -> TrackedRun:
    """A run as a tracker is told of it."""
    config = {"seed": 0, "rollout": {"group_size": 8}}
    return TrackedRun(folder, "tests", "mine", record_id="0123456789ab", config=config, next_step=next_step)
