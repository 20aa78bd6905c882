from pathlib import Path

import pytest

from mmrl.errors import PluginError, known_names
from mmrl.plugins import find_plugin, load_module, resolve_function, resolve_module, shipped_dir, shipped_names


def test_the_three_spellings(tmp_path):
    (tmp_path / "mine.py").write_text("def score(completion, sample):\n    return 1.0\n")
    assert resolve_function("./mine.py:score", kind="rewards", default="x", relative_to=tmp_path)("", None) == 1.0
    assert resolve_function("./mine.py", kind="rewards", default="score", relative_to=tmp_path)("", None) == 1.0
    assert resolve_function("os.path:join", kind="rewards", default="x")("a", "b") == "a/b"
    assert callable(resolve_function("opo", kind="algorithms", default="advantage"))


def test_finding_runs_nothing(tmp_path):
    (tmp_path / "bad.py").write_text("raise SystemExit\n")
    assert find_plugin("bad.py", kind="rewards", relative_to=tmp_path) == (tmp_path / "bad.py").resolve()
    assert find_plugin("json.tool:main", kind="rewards") == "json.tool"


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ("nothing", r"unknown plug-in 'nothing' in algorithms/; known: those that `mmrl list methods` prints"),
        ("./nothing.py:f", r"nothing\.py does not exist \(written './nothing\.py:f'\)"),
        ("no.such.module:f", r"plug-in module 'no\.such\.module' is not installed"),
        ("json:no_such_function", r"no function 'no_such_function'"),
    ],
)
def test_what_is_not_there_is_named(spelling, message, tmp_path):
    with pytest.raises(PluginError, match=message):
        resolve_function(spelling, kind="algorithms", default="f", relative_to=tmp_path)


@pytest.mark.parametrize(
    ("spelling", "kind", "command", "beginning", "hint"),
    [
        ("choise", "rewards", "mmrl list rewards", "unknown reward 'choise'", "; did you mean 'choice'?"),
        ("captions", "rewards", "mmrl list rewards", "unknown reward 'captions'", ""),
        ("opa", "algorithms", "mmrl list methods", "unknown plug-in 'opa' in algorithms/", "; did you mean 'opo'?"),
    ],
)
def test_the_nearest_name_is_suggested(spelling, kind, command, beginning, hint):
    with pytest.raises(PluginError) as caught:
        find_plugin(spelling, kind=kind)
    assert str(caught.value) == f"{beginning}; known: {known_names(shipped_names(kind), listed_by=command)}{hint}"


def test_a_file_may_hold_a_dataclass_and_is_loaded_once(tmp_path):
    path = tmp_path / "p.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\n"
    )
    assert load_module(path).A().x == 1
    assert load_module(path) is load_module(path)


def test_plugins_of_algorithms_are_part_of_the_package():
    assert shipped_dir("algorithms") == Path(shipped_dir("algorithms").parents[1]) / "algorithms" / "plugins"
    assert shipped_names("algorithms") == tuple(sorted(shipped_names("algorithms")))
    with pytest.raises(PluginError, match=r"'no_kind' is missing from this installation"):
        shipped_dir("no_kind")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import sys\nsys.exit(2)\n", r"ends\.py:2: plug-in file raised SystemExit: 2"),
        ("\nimport no_such_module\n", r"ends\.py:2: plug-in file cannot be imported: No module named 'no_such_module'"),
        ("a = 1\nb = 1 / 0\n", r"ends\.py:2: plug-in file raised ZeroDivisionError: division by zero"),
    ],
)
def test_what_keeps_a_file_from_being_imported_is_named_with_its_line(source, message, tmp_path):
    (tmp_path / "ends.py").write_text(source)
    with pytest.raises(PluginError, match=message):
        resolve_module("./ends.py", kind="rewards", relative_to=tmp_path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise SystemExit(2)\n", "plug-in module 'mmrl_broken_plugin' raised SystemExit: 2"),
        ("1 / 0\n", "plug-in module 'mmrl_broken_plugin' raised ZeroDivisionError"),
        ("def f(:\n", r"mmrl_broken_plugin\.py:1: invalid syntax"),
    ],
)
def test_what_keeps_a_module_from_being_imported_is_named(source, message, tmp_path, monkeypatch):
    (tmp_path / "mmrl_broken_plugin.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=message):
        resolve_module("mmrl_broken_plugin:f", kind="rewards")
