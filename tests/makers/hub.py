"""A hub cache made by hand: the layout of huggingface_hub, no network."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HUB_ID = "acme/tiny-vl"


def fake_hub(
    monkeypatch: pytest.MonkeyPatch, cache: Path, source: Path, *, without: Collection[str] = (), ref: str = "main"
) -> Path:
    """Put a model folder into a hub cache as HUB_ID, its branch or tag `ref` at COMMIT; returns the snapshot folder."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    root = cache / f"models--{HUB_ID.replace('/', '--')}"
    snapshot = root / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs" / ref).write_text(COMMIT)
    for path in source.iterdir():
        if path.name not in without:
            shutil.copyfile(path, snapshot / path.name)
    return snapshot
