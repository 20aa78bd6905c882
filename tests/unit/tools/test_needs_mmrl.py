"""A tool run by a Python without mmrl says how it is run, instead of a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
IMPORTERS = sorted(path.name for path in TOOLS.glob("*.py") if "from mmrl" in path.read_text())


@pytest.mark.parametrize("name", IMPORTERS)
def test_without_mmrl_a_tool_says_how_to_run_it(tmp_path, name):
    script = TOOLS / name
    # -S leaves out the site-packages folder: nothing but the standard library is installed.
    result = subprocess.run([sys.executable, "-S", "-E", script], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr == (
        f"error: mmrl is not installed for {sys.executable}; run `make install` in the checkout, "
        f"then `.venv/bin/python {script}`\n"
    )
