"""The guard of vLLM's private interface says what changed; nothing but it and `vllm_private` touches vLLM."""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmrl.errors import EngineError
from mmrl.rollout import vllm_guard

ROOT = Path(__file__).resolve().parents[3]
ALLOWED = {"mmrl/rollout/vllm_guard.py", "mmrl/rollout/vllm_private.py"}


@pytest.fixture
def installed(monkeypatch):
    """A vLLM of the supported version, of which only the private interface is asked."""
    monkeypatch.setattr(vllm_guard, "_version_of", lambda package: f"{vllm_guard.SUPPORTED}.7")
    known = vllm_guard.vllm_module
    empty = SimpleNamespace()
    monkeypatch.setattr(vllm_guard, "vllm_module", lambda name: empty if name == "vllm" else known(name))
    monkeypatch.setattr(vllm_guard, "PRIVATE", ())
    for name in (*vllm_guard.ENVIRONMENT, *vllm_guard.DEFAULTS):  # put back afterwards
        monkeypatch.setenv(name, "0")
    return empty


def test_a_vllm_that_is_as_expected_is_given(installed):
    assert vllm_guard.import_vllm() is installed


@pytest.mark.parametrize("version", ["0.31.9", "0.33.0", "1.0", "0.320.1"])
def test_another_version_is_refused_by_name(installed, version: str, monkeypatch):
    monkeypatch.setattr(vllm_guard, "_version_of", lambda package: version)
    with pytest.raises(EngineError, match=rf"^vLLM {version} is installed, but only 0\.32\.x is supported; "):
        vllm_guard.import_vllm()


def test_a_missing_vllm_names_the_remedy(installed, monkeypatch):
    monkeypatch.setattr(vllm_guard, "_version_of", lambda package: None)
    with pytest.raises(EngineError, match=r"vLLM is not installed; install the extra mmrl\[vllm\]"):
        vllm_guard.import_vllm()


def test_what_changed_inside_is_listed(installed, monkeypatch):
    used = (
        ("json", "dumps", ("obj",)),
        ("json", "JSONEncoder.encode_all", ()),
        ("json.gone", "x", ()),
        ("json", "loads", ("s", "a", "b")),
    )
    monkeypatch.setattr(vllm_guard, "PRIVATE", used)
    said = "json.JSONEncoder.encode_all is gone; json.gone.x is gone; json.loads has no parameter a, b"
    with pytest.raises(EngineError) as error:
        vllm_guard.import_vllm()
    assert str(error.value) == f"vLLM 0.32.7 lacks what mmrl uses of its private interface: {said}"


def test_only_two_files_touch_vllm():
    files = [path for folder in ("mmrl", "rewards", "tools") for path in (ROOT / folder).rglob("*.py")]
    touching = {str(path.relative_to(ROOT)) for path in files if any(touches(path))}
    assert touching == ALLOWED


def touches(path: Path) -> Iterator[bool]:
    """For every import of a module, and every name of `vllm_guard` that gives one, whether it is of vLLM."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield any(alias.name.split(".")[0] == "vllm" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            yield (node.module or "").split(".")[0] == "vllm" or bool(names & {"vllm_module", "import_vllm"})
        elif isinstance(node, ast.FunctionDef):
            yield node.name == "vllm_module"
