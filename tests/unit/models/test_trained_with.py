"""What a checkpoint says of itself, and that it is used next time unless somebody says otherwise."""

import dataclasses
from pathlib import Path

import pytest
from makers.tiny_models import chat_template, tiny_model_dir

from mmrl.config.schema import ModelSection, RunConfig
from mmrl.errors import CheckpointError, ConfigError
from mmrl.models.load import load_policy, processor_of, save_model
from mmrl.models.trained_with import checkpoint_settings, trained_with, write_trained_with

TURN = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
CLOSED = "<think>\n\n</think>\n\n"
THINKING = "{%- if enable_thinking is defined and not enable_thinking -%}{{ CLOSED }}{%- endif -%}"


def thinking_template(folder: Path) -> Path:
    path = folder / "mine.jinja"
    path.write_text(chat_template("qwen3_vl") + THINKING.replace("CLOSED", repr(CLOSED)))
    return path


def section(**changes) -> ModelSection:
    return ModelSection.model_validate({"path": str(tiny_model_dir("qwen3_vl")), "dtype": "float32", **changes})


def saved(folder: Path, model_changes: dict, **config_changes) -> Path:
    """A checkpoint's model folder."""
    config = RunConfig.model_validate({"model": section(**model_changes).model_dump(), **config_changes})
    model, processor = load_policy(config.model)
    save_model(model, processor, folder)
    write_trained_with(trained_with(config, processor, policy_version=7), folder)
    return folder


def test_the_chat_template_may_be_a_file_and_is_told_of_thinking(tmp_path: Path):
    path = str(thinking_template(tmp_path))
    for flag, begin in ((None, ""), (True, ""), (False, CLOSED)):
        asked = processor_of(section(chat_template=path, enable_thinking=flag)).apply_template(TURN)
        assert asked.split("assistant\n")[1] == begin
    with pytest.raises(ConfigError, match=r"model\.enable_thinking is True, but the chat template of .* does not ask"):
        processor_of(section(enable_thinking=True))
    with pytest.raises(ConfigError, match=r"model\.chat_template .*gone\.jinja: cannot be read"):
        processor_of(section(chat_template=str(tmp_path / "gone.jinja")))
    with pytest.raises(ConfigError, match="no chat template named 'tools'; it has: default"):
        processor_of(section(chat_template="tools"))


@pytest.mark.parametrize("lora", [None, {"rank": 2}])
def test_a_checkpoint_is_used_as_it_was_trained(lora, tmp_path: Path):  # faults 21, 78
    template = thinking_template(tmp_path)
    changes = {"chat_template": str(template), "enable_thinking": False, "box_space": "0..1", "lora": lora}
    data = {"user_template": "box_json", "task_templates": {"m": "{prompt} Boxed."}, "system_prompt": "Be brief."}
    budgets = {"image": {"max_pixels": 40_000}}
    folder = saved(tmp_path / "step-000001" / "model", changes, data=data, budgets=budgets)
    template.unlink()  # the checkpoint has its own copy

    settings = checkpoint_settings(folder)
    assert settings == checkpoint_settings(folder.parent)
    assert settings.budgets["image"].max_pixels == 40_000
    assert (settings.box_space, settings.enable_thinking, settings.policy_version) == ("0..1", False, 7)
    assert (settings.system_prompt, settings.task_templates) == ("Be brief.", {"m": "{prompt} Boxed."})
    assert "bbox_2d" in settings.user_template
    assert settings.templates["data.user_template"]["name"] == "box_json"
    again = processor_of(section(path=str(folder)))
    assert (again.box_space, again.enable_thinking, again.chat_template) == ("0..1", False, settings.chat_template)
    assert again.apply_template(TURN).endswith(CLOSED)
    other = processor_of(section(path=str(folder), enable_thinking=True, box_space="0..1000"))
    assert (other.box_space, other.enable_thinking) == ("0..1000", True)


def test_a_base_model_says_nothing_and_a_damaged_file_is_an_error(tmp_path: Path):
    assert checkpoint_settings(tiny_model_dir("qwen3_vl")) is None
    (tmp_path / "mmrl.json").write_text('{"budgets": {}, "colour": 1}')
    with pytest.raises(CheckpointError, match=r"mmrl\.json: cannot be read as settings of a model"):
        checkpoint_settings(tmp_path)


def test_every_field_survives_the_file(tmp_path: Path):
    config = RunConfig.model_validate({"model": section().model_dump()})
    record = trained_with(config, processor_of(config.model), policy_version=0)
    write_trained_with(record, tmp_path)
    assert dataclasses.asdict(checkpoint_settings(tmp_path)) == dataclasses.asdict(record)
