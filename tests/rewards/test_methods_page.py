"""docs/methods.md names only what there is: rewards, plug-ins, presets and their tasks, options and values, tests."""

import ast
import inspect
import re
from functools import cache
from typing import Any, get_type_hints

import pytest
import yaml
from makers.pages import ROOT
from pydantic import TypeAdapter, ValidationError

from mmrl.data.make_tasks.kinds import KINDS
from mmrl.plugins import load_module, shipped_dir, shipped_names
from mmrl.scoring.reward import resolve_reward

PAGE = ROOT / "docs" / "methods.md"
HEAD = ("method", "scores", "here", "differs", "test")
REWARDS = frozenset(shipped_names("rewards"))
PLUGINS = frozenset(path.stem for path in (ROOT / "mmrl" / "algorithms" / "plugins").glob("*.py"))
PRESETS = {path.stem: path for path in (shipped_dir("configs") / "base" / "rewards").glob("*.yaml")}
TASKS = frozenset(
    task for path in PRESETS.values() for task in yaml.safe_load(path.read_text())["rewards"].get("tasks", ())
)
_OPTION = re.compile(r"([a-z_]+): (.+)")


def rows(text: str) -> list[dict[str, str]]:
    """The rows of all tables with the columns of HEAD."""
    found, head = [], ()
    for line in text.splitlines():
        cells = tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        if not line.startswith("|"):
            head = ()
        elif not head:
            head = cells
        elif head == HEAD and not set(line) <= set("|-: "):
            assert len(cells) == len(HEAD), line
            found.append(dict(zip(HEAD, cells, strict=True)))
    return found


ROWS = rows(PAGE.read_text(encoding="utf-8"))


def tokens(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def callable_of(name: str) -> Any:
    """What takes the options of a reward or of a plug-in."""
    if name in REWARDS:
        return resolve_reward(name).function
    return getattr(
        load_module(ROOT / "mmrl" / "algorithms" / "plugins" / f"{name}.py"), "Plugin", lambda: None
    ).__init__


def takes(name: str, option: str, value: Any) -> bool:
    """Whether a reward or plug-in has the option, and the option such a value."""
    function = callable_of(name)
    if option not in inspect.signature(function).parameters:
        return False
    try:
        TypeAdapter(get_type_hints(function)[option]).validate_python(value, strict=True)
    except ValidationError:
        return isinstance(value, int) and takes(name, option, float(value)) and not isinstance(value, bool)
    return True


def has_option(name: str, option: str) -> bool:
    parameters = inspect.signature(callable_of(name)).parameters
    return option in parameters and parameters[option].kind is inspect.Parameter.KEYWORD_ONLY


def unknown(row: dict[str, str]) -> list[str]:
    """What a row names that there is not. A key of the configuration is checked with those of all pages."""
    named = tokens(row["here"])
    mine = [token for token in (*named, *tokens(row["differs"])) if token in REWARDS | PLUGINS]
    wrong = []
    for token in named:
        option = _OPTION.fullmatch(token)
        if option:
            known = any(takes(name, option[1], yaml.safe_load(option[2])) for name in mine)
        elif token.startswith("configs/"):
            known = (ROOT / token).is_file()
        else:
            known = token in REWARDS | PLUGINS | PRESETS.keys() | TASKS | KINDS.keys() or "." in token
            known = known or token.startswith("mmrl ") or any(has_option(name, token) for name in mine)
        wrong += [] if known else [token]
    for token in tokens(row["differs"]):
        option = _OPTION.fullmatch(token)
        if option and not any(takes(name, option[1], yaml.safe_load(option[2])) for name in mine):
            wrong.append(token)
    return wrong


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["method"])
def test_what_a_row_names_is_there(row):
    assert unknown(row) == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["method"])
def test_the_test_of_a_row_is_there(row):
    named = tokens(row["test"])
    assert named
    for test in named:
        path, _, name = test.removeprefix("tests/").partition("::")
        function, _, case = name.rstrip("]").partition("[")
        assert function in functions_of(path), test
        assert function != "test_golden_cases" or case in REWARDS, test


def test_rows_that_name_what_is_not_there_would_be_found():
    text = "| method | scores | here | differs | test |\n|---|---|---|---|---|\n"
    text += "| a | b | `box_iuo`, `box_iou`, `measure: diou`; task `vlm_r1` | `official: true` | |\n"
    [row] = rows(text)
    assert unknown(row) == ["box_iuo", "measure: diou", "vlm_r1", "official: true"]
    assert unknown({**row, "here": "`box_iou`, `measure: giou`, `threshold: 1`", "differs": "`vlm_r1`"}) == []
    plugin = {"here": "`rlcr`, `correct`, `split: true`, `splits`", "differs": "`split: 3`"}
    assert unknown({**row, **plugin}) == ["splits", "split: 3"]


def test_every_shipped_reward_and_plug_in_is_named():
    """Your own need no row: name them by their file, ./my_reward.py, in a folder of yours."""
    named = {token for row in ROWS for cell in ("here", "differs") for token in tokens(row[cell])}
    missing = sorted((REWARDS | PLUGINS) - named)
    assert not missing, f"docs/methods.md says nothing of {missing}: add a row to the table of its kind"


def test_every_kind_of_made_task_that_shows_media_is_named():
    named = {token for row in ROWS for token in tokens(row["here"])}
    assert {*KINDS} - named <= {"logic-puzzles"}


def test_every_preset_is_named():
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in PRESETS if f"`{name}`" not in text] == []
