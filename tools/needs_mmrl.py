"""Imported first by the tools beside it: where mmrl is not installed they say in one line how they are run."""

import importlib.util
import sys

if importlib.util.find_spec("mmrl") is None:
    sys.exit(
        f"error: mmrl is not installed for {sys.executable}; run `make install` in the checkout, "
        f"then `.venv/bin/python {sys.argv[0]}`"
    )
