"""Jinja templates over a row's columns: what they may do, what a row's text may not, and which errors come when."""

import json
from pathlib import Path

import pytest
from makers.rows import write_jsonl

from mmrl.config.load import load_config
from mmrl.config.schema import DataSection, DatasetSection
from mmrl.data.readers import read_dataset
from mmrl.data.sample import MediaPart, Message, SpacePart, TextPart
from mmrl.data.skipped import SkippedLog
from mmrl.data.template_text import MAX_CHARACTERS, is_jinja, template_pieces, template_problem
from mmrl.data.templates import Templates, apply_templates, resolve_templates
from mmrl.errors import ConfigError, DataError

CHOICES = "{{ prompt }}\n{% for option in options %}\n{{ loop.index }}. {{ option }}\n{% endfor %}\n"


def filled(template: str, *parts, **columns):
    messages = [Message("user", parts or (TextPart("What?"),))]
    return apply_templates(messages, Templates(None, template, {}, None, {}), task="t", columns=columns)[0].parts


def test_columns_are_read_chosen_and_looped_over():
    assert filled(CHOICES, options=["red", "blue"]) == (TextPart("What?\n1. red\n2. blue\n"),)
    template = "{% if kind == 'mc' %}{{ prompt }} Choose.{% else %}Say: {{ prompt }}{% endif %}"
    assert filled(template, kind="mc") == (TextPart("What? Choose."),)
    assert filled(template, kind="free") == (TextPart("Say: What?"),)
    assert filled("{{prompt}} {{ tags | join(', ') }} {{ name.strip() }}", tags=["a", "b"], name=" c ") == (
        TextPart("What? a, b c"),
    )


def test_media_stay_parts_and_text_around_them_is_joined():
    done = filled("Look: {{ prompt }} {{ hint }}", TextPart("a "), MediaPart(0), TextPart(" b"), hint="now")
    assert done == (TextPart("Look: a "), MediaPart(0), TextPart(" b now"))


def test_spaces_are_parts_of_their_own():
    done = filled("{{ prompt }} in {{ box_space }}, at {{ time_space }}.")
    assert done == (TextPart("What? in "), SpacePart("box"), TextPart(", at "), SpacePart("time"), TextPart("."))


@pytest.mark.parametrize("text", ["{{ 1 + 1 }} {% raw %}", "{prompt} {{ prompt }}", "{{ hint }}", "\ue000box\ue001"])
def test_what_a_row_says_is_never_a_template(text):  # fault 13
    assert filled("{{ prompt }} {{ hint }}", TextPart(text), hint=text) == (TextPart(f"{text} {text}"),)
    assert filled("{prompt} {{ hint }}", TextPart(text), hint=text) == (TextPart(f"{text} {{{{ hint }}}}"),)


def test_braces_of_json_and_latex_need_no_escape_in_either_form():
    assert filled(r'{prompt} \boxed{} {"a": {"b": 1}}') == (TextPart(r'What? \boxed{} {"a": {"b": 1}}'),)
    assert filled(r'{{ prompt }} \boxed{} {"a": 1}') == (TextPart(r'What? \boxed{} {"a": 1}'),)
    assert not is_jinja(r"{prompt} {{x}}")


def test_a_column_that_is_missing_is_an_error_when_the_dataset_is_read(tmp_path: Path):
    rows = [{"prompt": "a", "answer": "b", "task": "t", "hint": "h"}, {"prompt": "c", "answer": "d", "task": "t"}]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    data = DataSection(user_template="{{ prompt }} {{ hint }}")

    def read(section):
        return read_dataset(section, data=data, relative_to=tmp_path, skipped=SkippedLog(None, max_fraction=0.0))

    with pytest.raises(DataError) as error:
        read(DatasetSection(path=str(path)))
    expected = "the template '{{ prompt }} {{ hint }}': 'hint' is undefined; write {{ hint | default(\"\") }} if rows "
    expected += "may lack it; columns present: prompt, answer, task"
    assert str(error.value) == f"rows.jsonl:2 (id=rows:2): {expected}"
    [sample] = read(DatasetSection(path=str(path), max_samples=1))
    assert sample.messages[0].parts == (TextPart("a h"),)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{{ prompt }} {% if %}", "is not valid Jinja (line 1: Expected an expression, got 'end of statement block')"),
        ("{{ hint }}", "does not use {{ prompt }}; it must say once where the prompt goes"),
        ("{{ prompt }} {prompt}", "holds {prompt} and {{ prompt }}; write one of them, once"),
        ("{{ prompt }} {{ x | pprint }}", "is not valid Jinja (line 1: No filter named 'pprint'.)"),
        ("{{ prompt }}{{prompt}}", None),  # may be right for a row: said when one is read
        ("{prompt} {{ x }}", None),
    ],
)
def test_what_is_wrong_without_a_row(template, problem):
    assert template_problem(template) == problem


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ prompt }}{{ prompt }}", "holds the prompt 2 times for this row"),
        ("{% if hint %}{{ prompt }}{% endif %}", "holds the prompt 0 times for this row"),
        ("{{ prompt | upper }}", "holds the prompt 0 times for this row"),
        (
            "{{ prompt }} {{ hnit }}",
            r"'hnit' is undefined; write {{ hnit \| default\(\"\"\) .*; did you mean 'hint'\?",
        ),
        ("{{ prompt }}{% for i in range(9) %}{% endfor %}", "'range' is undefined"),
        ("{{ prompt }}{{ 'a' * 1000000000 }}", r"the operator \* is not available"),
        ("{{ prompt }}{{ '%999999999d' % 1 }}", "the operator % is not available"),
        ("{{ prompt }}{{ 'a'.center(1000000000) }}", "is not safely callable"),
        ("{{ prompt }}{{ ''.__class__.__mro__ }}", "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ prompt }}{{ rows.append(1) }}", "access to attribute 'append' of 'list' object is unsafe"),
        ("{{ prompt }}{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "is not safely callable"),
        ("{{ prompt }}{% include 'x' %}", "no loader for this environment specified"),
        ("{{ prompt }}{{ hint | length }}", "object of type 'int' has no len"),
        (
            "{{ prompt }}" + "{% for a in rows %}" * 4 + "{{ a }}" + "{% endfor %}" * 4,
            f"makes more than {MAX_CHARACTERS} characters",
        ),
    ],
)
def test_a_template_cannot_run_away_or_get_out(template, message):
    with pytest.raises(DataError, match=message):
        template_pieces(template, {"hint": 0, "rows": [str(i) for i in range(30)]})


def test_names_mean_shipped_templates_and_errors_name_the_key(tmp_path: Path):
    templates = resolve_templates(
        DatasetSection.model_validate({"path": "a", "system_prompt": "think_answer"}),
        data=DataSection.model_validate({"user_template": "box_json", "task_templates": {"m": "boxed"}}),
    )
    assert "bbox_2d" in str(templates.user("t")) and "boxed" in str(templates.user("m"))
    assert "<answer>" in str(templates.system)

    written = {"model": {"path": "m"}, "data": {"user_template": "box_jsn", "system_prompt": "think_anwser"}}
    (tmp_path / "a.yaml").write_text(json.dumps(written))
    with pytest.raises(ConfigError) as error:
        load_config(tmp_path / "a.yaml")
    user, system = str(error.value).splitlines()
    assert "'data.user_template' names no shipped template: 'box_jsn'; known: plain," in user
    assert user.endswith("or {{ prompt }} where the question goes; did you mean 'box_json'?")
    assert "a.yaml:1: 'data.system_prompt' names no shipped template with a system turn: 'think_anwser'" in system
