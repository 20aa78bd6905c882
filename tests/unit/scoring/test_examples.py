"""The worked examples in the docstrings are true, and a scoring worker starts light."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import mmrl.scoring

FOLDER = Path(mmrl.scoring.__file__).parent
MODULES = sorted(
    ".".join(("mmrl.scoring", *path.relative_to(FOLDER).with_suffix("").parts)).removesuffix(".__init__")
    for path in FOLDER.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0 and result.failed == 0


def test_workers_import_neither_torch_nor_pydantic():
    code = "import sys, mmrl.scoring.pool; print({'torch', 'pydantic', 'transformers', 'sympy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
