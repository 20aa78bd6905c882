"""Write docs/configuration.md, and the keys of docs/reward_models.md, from the schemas.

`python tools/write_config_reference.py`; a test keeps them equal.
"""

from __future__ import annotations

import json
import typing
from pathlib import Path

import needs_mmrl  # noqa: F401
from pydantic import BaseModel

from mmrl.config.data_sections import DataSection
from mmrl.config.schema import RunConfig
from mmrl.reward_models.config import RewardModelConfig

TARGET = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
REWARD_MODELS = TARGET.with_name("reward_models.md")
_KEYS = "## Keys\n"

INTRODUCTION = """# Configuration

A run is one YAML file. Every key below may be set there or on the command line
(`mmrl train run.yaml stages.0.steps=50`; an entry of a list is addressed by number or by its `name`). `base:` names one
YAML file, or several, whose values come first. Unknown keys, wrong types and contradictions stop before any model is
loaded, with file, line and remedy. Relative paths are relative to the file that says them, `out_dir` and `cache.dir` to
the current directory. The run folder's `resolved.yaml` repeats the whole configuration as it was used.

In the headings, `[i]` is an entry of a list and `<name>` a name of your choice. A section that occurs twice is listed
once: `data.val[i]` has the keys of `data.train[i]`, a stage's `data` those of `data`, a dataset's `budgets` those of
`budgets`.

This page is written by `tools/write_config_reference.py` from `mmrl/config/schema.py`.
"""


def sections(model: type[BaseModel], path: str) -> list[tuple[str, type[BaseModel]]]:
    """(path, section) of a model and of every section below it, in order of the schema."""
    found = [(path, model)]
    for name, field in model.model_fields.items():
        for inner, suffix in _models_in(field.annotation):
            below = f"{path}.{name}{suffix}" if path else f"{name}{suffix}"
            found += [s for s in sections(inner, below) if s[1] not in [model for _, model in found]]
    return found


def _models_in(annotation: object) -> list[tuple[type[BaseModel], str]]:
    """Sections inside a type, with how an entry is written: `[i]` in lists, `.<name>` in mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, "")]
    suffix = {tuple: "[i]", dict: ".<name>"}.get(typing.get_origin(annotation), "")
    return [(model, suffix + rest) for part in typing.get_args(annotation) for model, rest in _models_in(part)]


NAMES = {"str": "text", "int": "integer", "float": "number", "bool": "true or false"}
BOUNDS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))


def type_name(annotation: object, bounds: typing.Sequence[object] = ()) -> str:
    """A type as a person reads it: choices spelled out, bounds of numbers behind them.

    >>> type_name(dict[str, float]), type_name(int | None)
    ('mapping of number', 'integer')
    """
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in parts)
    if origin is typing.Annotated:
        return type_name(parts[0], parts[1].metadata)
    if isinstance(annotation, type) and not parts:
        name = "section" if issubclass(annotation, BaseModel) else NAMES.get(annotation.__name__, "any value")
        return " ".join([name, *_bound_texts(bounds)])
    known = [part for part in parts if part not in (type(None), Ellipsis)]
    if origin is dict:
        return f"mapping of {type_name(known[1])}"
    names = " or ".join(dict.fromkeys(type_name(part) for part in known))
    return f"list of {names}" if origin is tuple else names or "any value"


def _bound_texts(bounds: typing.Sequence[object]) -> list[str]:
    return [
        f"{sign} {getattr(bound, name):g}"
        for bound in bounds
        for name, sign in BOUNDS
        if getattr(bound, name, None) is not None
    ]


def default_text(field: typing.Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "defaults below"
    if isinstance(value, dict) and any(isinstance(v, BaseModel) for v in value.values()):
        own = {name: v.model_dump(exclude_unset=True) for name, v in value.items()}
        return f"`{json.dumps(own)}`"
    return f"`{json.dumps(value)}`"


def table(path: str, model: type[BaseModel]) -> str:
    title = f"## `{path}`\n\n" if path else "## Top level\n\n"
    summary = (model.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        cells = (f"`{name}`", type_name(field.annotation, field.metadata), default_text(field), field.description or "")
        lines.append("| " + " | ".join(cell.replace("|", "or") for cell in cells) + " |")
    return (
        title + (summary + "\n\n" if model.__doc__ != BaseModel.__doc__ and summary else "") + "\n".join(lines) + "\n"
    )


def reference() -> str:
    return INTRODUCTION + "\n" + "\n".join(table(path, model) for path, model in sections(RunConfig, ""))


def reward_models_page(text: str) -> str:
    """The page with its keys written anew; those of `data` stand in the configuration of runs."""
    known = {model for _, model in sections(DataSection, "data")}
    tables = [table(path, model) for path, model in sections(RewardModelConfig, "") if model not in known]
    head = text[: text.index(_KEYS)] + _KEYS + "\n`data` has the keys of [a run's](configuration.md#data).\n\n"
    return head + "\n".join(tables).replace("\n## ", "\n### ").removeprefix("## Top level\n\n")


if __name__ == "__main__":
    TARGET.write_text(reference(), encoding="utf-8")
    REWARD_MODELS.write_text(reward_models_page(REWARD_MODELS.read_text(encoding="utf-8")), encoding="utf-8")
    print(TARGET, REWARD_MODELS)
