"""`mmrl schema` describes what the loader accepts."""

from pathlib import Path

import yaml
from jsonschema import Draft202012Validator

from mmrl.commands.schema import config_schema

CONFIGS = Path(__file__).parents[3] / "configs"


def test_every_shipped_config_is_valid_under_the_schema():
    validator = Draft202012Validator(config_schema())
    for path in CONFIGS.rglob("*.yaml"):
        assert list(validator.iter_errors(yaml.safe_load(path.read_text()))) == [], path


def test_a_misspelt_key_and_a_wrong_type_are_found():
    validator = Draft202012Validator(config_schema())
    for wrong in ({"sead": 1}, {"rollout": {"grup_size": 8}}, {"rollout": {"group_size": "8"}}, {"base": 3}):
        assert list(validator.iter_errors(wrong)), wrong
