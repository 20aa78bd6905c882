"""The worked examples in the docstrings are true."""

import doctest
import importlib

import pytest

MODULES = (
    "assertions",
    "sandbox",
    "code_blocks",
    "difficulty",
    "think_tags",
    "svg",
    "kept",
    "pictures",
    "latex_source",
    "texocr",
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(f"mmrl.scoring.{name}"))
    assert result.attempted > 0 and result.failed == 0


def test_examples_of_katex():
    pytest.importorskip("quickjs", reason="needs the extra mmrl[latex]")
    result = doctest.testmod(importlib.import_module("mmrl.scoring.katex"))
    assert result.attempted > 0 and result.failed == 0
