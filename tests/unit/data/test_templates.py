"""Which template wins, where it goes, and what a run records."""

import hashlib

import pytest

from mmrl.config.schema import DataSection, DatasetSection, RunConfig
from mmrl.data.sample import MediaPart, Message, TextPart
from mmrl.data.templates import Templates, apply_templates, join_text, resolve_templates, template_record
from mmrl.errors import ConfigError

NONE = Templates(None, None, {}, None, {})


@pytest.mark.parametrize(
    ("dataset", "data", "winner"),
    [
        ({}, {}, None),
        ({}, {"user_template": "D {prompt}"}, "D {prompt}"),
        ({}, {"user_template": "D {prompt}", "task_templates": {"t": "DT {prompt}"}}, "DT {prompt}"),
        ({"user_template": "S {prompt}"}, {"task_templates": {"t": "DT {prompt}"}}, "S {prompt}"),
        ({"user_template": "S {prompt}", "task_templates": {"t": "ST {prompt}"}}, {}, "ST {prompt}"),
        ({"task_templates": {"other": "ST {prompt}"}}, {"user_template": "D {prompt}"}, "D {prompt}"),
    ],
)
def test_most_specific_user_template_wins(dataset, data, winner):
    section = DatasetSection.model_validate({"path": "a.jsonl", **dataset})
    assert resolve_templates(section, data=DataSection.model_validate(data)).user("t") == winner


def test_most_specific_system_prompt_wins():
    data = DataSection(system_prompt="data")
    assert resolve_templates(DatasetSection(path="a"), data=data).system == "data"
    assert resolve_templates(DatasetSection(path="a", system_prompt=""), data=data).system == ""


@pytest.mark.parametrize("template", ["no place", "{prompt} {prompt}"])
def test_prompt_must_be_said_once(template):
    with pytest.raises(ConfigError, match=r"dataset 'a': task_templates.t (holds|does not contain) \{prompt\}"):
        resolve_templates(
            DatasetSection.model_validate({"path": "a.jsonl", "task_templates": {"t": template}}), data=DataSection()
        )
    with pytest.raises(ConfigError, match=r"data.user_template (holds|does not contain)"):
        resolve_templates(DatasetSection(path="a"), data=DataSection(user_template=template))


def test_template_surrounds_the_last_user_message_and_media_stay():
    messages = [
        Message("user", (TextPart("hi"),)),
        Message("assistant", (TextPart("yes?"),)),
        Message("user", (TextPart("look "), MediaPart(0), TextPart(" here"))),
    ]
    templates = Templates("sys", 'JSON {"a": {prompt}} <image>', {}, None, {})
    done = apply_templates(messages, templates, task="t")
    assert done[0] == Message("system", (TextPart("sys"),)) and done[1:3] == tuple(messages[:2])
    assert done[3].parts == (TextPart('JSON {"a": look '), MediaPart(0), TextPart(" here} <image>"))


def test_a_row_keeps_its_own_system_message():
    own = [Message("system", (TextPart("own"),)), Message("user", (TextPart("q"),))]
    assert apply_templates(own, Templates("sys", None, {}, None, {}), task="t") == tuple(own)
    assert apply_templates(own, NONE, task="t") == tuple(own)


def test_join_text():
    assert join_text((TextPart(""), MediaPart(0), TextPart("a"), TextPart("b"), TextPart(""))) == (
        MediaPart(0),
        TextPart("ab"),
    )


def test_record_holds_text_and_hash_of_every_template():
    stage = {"name": "warm", "kind": "sft", "steps": 1, "prompts_per_step": 1, "data": {"system_prompt": "S"}}
    config = RunConfig.model_validate(
        {
            "model": {"path": "m"},
            "data": {
                "user_template": "{prompt}!",
                "train": [{"path": "x/dogs.jsonl", "task_templates": {"count": "{prompt}?"}}],
                "val": [{"path": "y.jsonl", "name": "held", "system_prompt": "Sei kurz – ja"}],
            },
            "stages": [stage],
        }
    )
    record = template_record(config)
    assert {key: entry["text"] for key, entry in record.items()} == {
        "data.user_template": "{prompt}!",
        "data.train.dogs.task_templates.count": "{prompt}?",
        "data.val.held.system_prompt": "Sei kurz – ja",
        "stages.warm.data.system_prompt": "S",
    }
    assert record["data.user_template"]["sha256"] == hashlib.sha256(b"{prompt}!").hexdigest()
