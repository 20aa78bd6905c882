"""mmrl.json: what the model in a folder was trained with, so that whoever uses it next does the same by default.

A model trained on 40,000-pixel pictures and a template of its own is not scored on others unless somebody says so
(faults 21 and 78).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmrl.config.schema import BudgetClass, RunConfig
from mmrl.data.templates import template_record
from mmrl.errors import CheckpointError
from mmrl.models.families import FamilyProcessor
from mmrl.models.hub import commit_of

TRAINED_WITH = "mmrl.json"
_DATA = "data."
_TASK = "data.task_templates."


@dataclass(frozen=True)
class TrainedWith:
    """The settings a model was trained with.

    base_model, revision, commit: `model.path`, `model.revision` and the commit whose files were read (None: a folder).
    budgets: by class. box_space, time_space: how it was taught to write places and times (None: unknown).
    chat_template: its text. enable_thinking: what the template was told (None: nothing).
    templates: key -> {text, sha256, name}, see `template_record`.
    """

    base_model: str
    policy_version: int
    box_space: str | None
    time_space: str
    chat_template: str
    chat_template_sha256: str
    revision: str | None = None
    commit: str | None = None
    trust_remote_code: bool = False
    enable_thinking: bool | None = None
    budgets: Mapping[str, BudgetClass] = field(default_factory=dict)
    templates: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def system_prompt(self) -> str | None:
        """The run's system prompt; those of single datasets and stages are in `templates`."""
        return self._text("data.system_prompt")

    @property
    def user_template(self) -> str | None:
        """The text of the run's user template; those of single datasets and stages are in `templates`."""
        return self._text("data.user_template")

    @property
    def task_templates(self) -> dict[str, str]:
        """The texts of the run's templates by task."""
        return {key.removeprefix(_TASK): row["text"] for key, row in self.templates.items() if key.startswith(_TASK)}

    def _text(self, key: str) -> str | None:
        return self.templates[key]["text"] if key in self.templates else None


def trained_with(config: RunConfig, processor: FamilyProcessor, *, policy_version: int) -> TrainedWith:
    """What a run trains with."""
    return TrainedWith(
        base_model=config.model.path,
        revision=config.model.revision,
        commit=commit_of(processor.folder) or config.model.revision,
        trust_remote_code=config.model.trust_remote_code,
        policy_version=policy_version,
        box_space=processor.box_space,
        time_space=processor.time_space,
        chat_template=processor.chat_template,
        chat_template_sha256=hashlib.sha256(processor.chat_template.encode()).hexdigest(),
        enable_thinking=processor.enable_thinking,
        budgets=config.budgets,
        templates=template_record(config),
    )


def write_trained_with(record: TrainedWith, folder: Path) -> None:
    values = dataclasses.asdict(record)
    values["budgets"] = {name: budget.model_dump(mode="json") for name, budget in record.budgets.items()}
    (folder / TRAINED_WITH).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def checkpoint_settings(model_dir: Path | str) -> TrainedWith | None:
    """What the model in this folder was trained with; None for a folder without mmrl.json (a base model).

    Takes a checkpoint's `model/` folder, or the checkpoint itself. CheckpointError for a file that cannot be read.
    """
    folder = Path(model_dir)
    path = folder / TRAINED_WITH
    if not path.is_file() and (folder / "model" / TRAINED_WITH).is_file():
        path = folder / "model" / TRAINED_WITH
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        budgets = {name: BudgetClass.model_validate(budget) for name, budget in values.pop("budgets").items()}
        return TrainedWith(**values, budgets=budgets)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: cannot be read as settings of a model ({error})") from error
