"""Budgets written into a folder's processor files, where transformers and vLLM read them.

A model trained on 40,000-pixel pictures whose processor still says 12,845,056 would be shown others by every tool that
does not know mmrl.json (faults 20 and 21). How a budget is said to a processor: the family's geometry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmrl.config.schema import BudgetClass
from mmrl.data.sample import MediaKind
from mmrl.data.vision import VisionGeometry
from mmrl.errors import ConfigError

# One file for both processors, or a file for each: transformers reads either layout.
_COMMON = "processor_config.json"
_FILES = {"image": "preprocessor_config.json", "video": "video_preprocessor_config.json"}
_OLD_KEYS = ("min_pixels", "max_pixels")


def write_budgets(folder: Path, budgets: Mapping[str, BudgetClass], geometry: VisionGeometry) -> None:
    """Set the limits of the folder's image and clip processor to the classes `image` and `video`; other keys stay.

    A model that reads limits of its own from config.json gets them there as well.

    Raises ConfigError for a folder that has no processor file for them.
    """
    kinds: tuple[MediaKind, ...] = ("image", "video")
    for kind in kinds:
        if kind in budgets and (settings := geometry.processor_settings(kind, budgets[kind])):
            _change(folder, kind, settings)
    if "image" in budgets and (changes := geometry.model_settings(budgets["image"])):
        config = folder / "config.json"
        _write(config, _read(config) | changes)


def _change(folder: Path, kind: str, values: Mapping[str, Any]) -> None:
    common, own = folder / _COMMON, folder / _FILES[kind]
    if common.is_file() and f"{kind}_processor" in (settings := _read(common)):
        settings[f"{kind}_processor"] = _updated(settings[f"{kind}_processor"], values)
        _write(common, settings)
    elif own.is_file():
        _write(own, _updated(_read(own), values))
    elif kind == "image":  # a folder without a clip processor is of a model that reads no clips
        raise ConfigError(f"{folder}: neither {_COMMON} nor {own.name}; is this a model folder with its processor?")


def _updated(settings: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in settings.items() if key not in _OLD_KEYS}
    return {**kept, **values}


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, settings: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")
