"""The worked examples in the docstrings are true, and a scoring worker starts light."""

import doctest
import importlib
import subprocess
import sys

import pytest

MODULES = ("combine", "distributions", "geometry", "parse", "router")


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(f"mmrl.scoring.{name}"))
    assert result.attempted > 0 and result.failed == 0


def test_workers_import_neither_torch_nor_pydantic():
    code = "import sys, mmrl.scoring.pool; print({'torch', 'pydantic', 'transformers', 'sympy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
