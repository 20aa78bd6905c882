"""Every reward file says what a user must know, and the table in rewards/README.md repeats it."""

import inspect

import pytest

from mmrl.plugins import resolve_module, shipped_dir, shipped_names

NAMES = shipped_names("rewards")
FIELDS = ("Formula:", "Bounds:", "Answer:", "Space:", "Source:", "Example:")


def _module(name):
    return resolve_module(name, kind="rewards")[0]


def _table():
    rows = [line for line in (shipped_dir("rewards") / "README.md").read_text().splitlines() if line.startswith("| `")]
    return {
        cells[0].strip("`"): cells[1:] for cells in ([c.strip() for c in row.strip("|").split("|")] for row in rows)
    }


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_has_every_field_once(name):
    lines = (_module(name).__doc__ or "").splitlines()
    assert [next(f for f in FIELDS if line.startswith(f)) for line in lines if line.startswith(FIELDS)] == list(FIELDS)


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_row_agrees_with_the_file(name):
    module = _module(name)
    what, bounds, geometry, options = _table()[name]
    lines = (module.__doc__ or "").splitlines()
    stated = next(line for line in lines if line.startswith("Bounds:"))
    keywords = [p.name for p in inspect.signature(module.score).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert what == lines[0]
    assert stated.removeprefix("Bounds: ").startswith(bounds)
    assert geometry == getattr(module, "GEOMETRY", "")
    assert options == ", ".join(f"`{k}`" for k in keywords)


def test_the_readme_lists_exactly_the_files():
    assert sorted(_table()) == list(NAMES)
