"""Real pictures, clips and pages that live beside the checkout and are not part of it."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"


def shared_media() -> Path:
    """Folder of the shared media; skips the calling test where it is absent."""
    folder = SHARED / "media"
    if not folder.is_dir():
        pytest.skip("the shared media folder is not beside this checkout")
    return folder


def shared_cases() -> Path:
    """Folder of machine-readable worked cases; skips the calling test where it is absent."""
    folder = SHARED / "cases"
    if not folder.is_dir():
        pytest.skip("the shared cases folder is not beside this checkout")
    return folder
