"""The readers of clips as test parameters; one whose libraries this machine lacks is skipped with the reason."""

import importlib

import pytest

from mmrl.data.video import READERS

OPTIONAL = ("torchcodec",)


def _why_absent(reader: str) -> str:
    try:
        importlib.import_module(READERS[reader])
    except ImportError as error:
        return str(error)
    return ""


ABSENT = {reader: reason for reader in OPTIONAL if (reason := _why_absent(reader))}
"""Optional reader -> why it cannot be used here."""

USABLE = tuple(reader for reader in READERS if reader not in ABSENT)

EACH = [pytest.param(name, marks=pytest.mark.skipif(name in ABSENT, reason=ABSENT.get(name, ""))) for name in READERS]
