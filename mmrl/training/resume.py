"""What a continued run goes on from, and the checks that it still is the run that was begun."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from mmrl.config.load import config_differences
from mmrl.config.schema import RunConfig
from mmrl.errors import ConfigError
from mmrl.training.checkpoint import find_checkpoints, load_state


def newest_checkpoint(folder: Path, config: RunConfig) -> Path | None:
    """The newest complete checkpoint of a run folder, or None when there is none yet.

    Raises CheckpointError for one that is damaged, ConfigError when the stages it was written by are no longer those
    of the configuration.
    """
    found = find_checkpoints(folder)
    if not found:
        return None
    state = load_state(found[-1])
    _check_stages(state.get("stages", ()), state["position"], config, found[-1])
    return found[-1]


def stage_record(config: RunConfig) -> list[dict[str, Any]]:
    """What a checkpoint notes of the stages, for the check of a later `--resume`."""
    return [section.model_dump(mode="json", include={"name", "kind", "steps"}) for section in config.stages]


def changed_keys(resolved: Path, config: RunConfig) -> list[str]:
    """Keys that differ from those the run was begun with.

    ConfigError for another model when there is a checkpoint: the run would go on with the weights of the old one.
    """
    try:
        old = yaml.safe_load(resolved.read_text(encoding="utf-8"))
        before = old["model"]["path"]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{resolved}: damaged, so what the run was begun with is unknown; remove it to continue without comparing"
        ) from error
    if before != config.model.path and find_checkpoints(resolved.parent):
        raise ConfigError(
            f"{resolved.parent} was begun with model.path {before} and would go on with its weights, not with "
            f"{config.model.path}; give the old path, or begin another run (name=..., or --overwrite)"
        )
    return config_differences(old, config.model_dump(mode="json"))


def _check_stages(
    before: Sequence[dict[str, Any]], position: dict[str, Any], config: RunConfig, checkpoint: Path
) -> None:
    current, done = position["stage"], position["stage_step"]
    begun = current + (done > 0)
    for index, old in enumerate(before[:begun]):
        now = config.stages[index] if index < len(config.stages) else None
        if now is None or (now.name, now.kind) != (old["name"], old["kind"]):
            is_now = f"{now.name!r} ({now.kind})" if now else "missing"
            fact = f"stages.{index} was {old['name']!r} ({old['kind']}) and is now {is_now}"
        elif index < current and now.steps != old["steps"]:
            fact = f"stage {old['name']!r} is finished with {old['steps']} steps and 'stages.{index}.steps' is now"
            fact += f" {now.steps}"
        elif index == current and now.steps < done:
            fact = f"stage {old['name']!r} has done {done} steps and 'stages.{index}.steps' is now {now.steps}"
        else:
            continue
        raise ConfigError(
            f"{checkpoint} cannot be continued: {fact}; put it back and add a stage behind it, or begin another run "
            f"(name=...) with model.path={checkpoint / 'model'}"
        )
