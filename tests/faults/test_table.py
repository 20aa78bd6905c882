"""Every row of the sections tested here has a test that exists: nobody can lose one by renaming or removing it."""

import ast
import functools
import re
from pathlib import Path

import pytest
from makers.shared import shared_media

TESTS = Path(__file__).resolve().parents[1]
SECTIONS = {
    "test_section_a.py": range(1, 17),
    "test_section_b.py": range(17, 32),
    "test_section_c.py": range(32, 53),
    "test_section_d.py": range(53, 62),
    "agreement_rows.py": range(62, 65),
    "test_section_f.py": range(67, 73),
    "test_vla.py": (79,),
    "test_training.py": (65, 66, 73, 74, 75),
    "test_evaluation.py": range(76, 79),
}


@functools.cache
def functions_in(module: str) -> frozenset[str]:
    """Names of the test functions of a module under tests/."""
    tree = ast.parse((TESTS / module).read_text(encoding="utf-8"))
    return frozenset(n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_"))


def covered(module: str) -> dict[int | str, list[str]]:
    """The table COVERED of a module, read without importing it."""
    tree = ast.parse((TESTS / "faults" / module).read_text(encoding="utf-8"))
    [table] = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "COVERED"]
    return ast.literal_eval(table)


@pytest.mark.parametrize("module", SECTIONS)
def test_every_row_has_a_test_that_exists(module):
    table = covered(module)
    assert [key for key in table if isinstance(key, int)] == list(SECTIONS[module])
    assert [key for key, ids in table.items() if not ids] == []
    ids = [test_id for of_row in table.values() for test_id in of_row]
    assert [i for i in ids if i.partition("::")[2] not in functions_in(i.partition("::")[0])] == []


def test_the_sections_are_those_of_the_list():
    """Where the list of faults lies beside the checkout, its sections have exactly these rows."""
    text = (shared_media().parent / "faults.md").read_text(encoding="utf-8")
    rows = [int(number) for number in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)]
    assert rows == list(range(1, 80))
    titles = re.findall(r"^### ([A-Z])\. .*?$|^\| (\d+) \|", text, flags=re.MULTILINE)
    section_of, letter = {}, ""
    for title, number in titles:
        letter = title or letter
        if number:
            section_of[int(number)] = letter
    for module, numbers in SECTIONS.items():
        if module.startswith("test_section"):
            letter = module[len("test_section_")].upper()
            assert [n for n, owner in section_of.items() if owner == letter] == list(numbers)
