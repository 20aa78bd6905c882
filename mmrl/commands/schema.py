"""`mmrl schema`: the JSON Schema of a configuration file, from which editors complete and check keys."""

from __future__ import annotations

import json
from typing import Any


def config_schema() -> dict[str, Any]:
    """The schema of a YAML file: every key of RunConfig, and `base`. No key is required: a base may hold it."""
    from mmrl.config.schema import RunConfig

    schema = RunConfig.model_json_schema(mode="validation")
    paths = {"type": "array", "items": {"type": "string"}}
    base = {"description": "file, or files, whose values come first", "anyOf": [{"type": "string"}, paths]}
    schema["properties"] = {"base": base, **schema["properties"]}
    for section in (schema, *schema["$defs"].values()):
        section.pop("required", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def schema_command() -> int:
    """Print the schema. Returns 0."""
    print(json.dumps(config_schema(), indent=1, ensure_ascii=False))
    return 0
