"""The model folder of a checkpoint: weights, processor, and what it was trained with."""

from __future__ import annotations

import json
from pathlib import Path

from mmrl.data.templates import template_record
from mmrl.models.load import save_model
from mmrl.train.runtime import Runtime

TRAINED_WITH = "mmrl.json"


def save_policy_folder(run: Runtime, folder: Path) -> None:
    """Write an ordinary model folder plus mmrl.json: budgets, spaces, templates and their hash.

    Evaluation reads mmrl.json, so a model trained on 40,000-pixel pictures is not scored on others by default.
    """
    save_model(run.policy, run.processor.folder, folder)
    record = {
        "budgets": {name: budget.model_dump(mode="json") for name, budget in run.config.budgets.items()},
        "box_space": run.processor.box_space,
        "time_space": run.processor.time_space,
        "templates": template_record(run.config),
        "base_model": run.config.model.path,
        "policy_version": run.policy_version,
    }
    (folder / TRAINED_WITH).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
