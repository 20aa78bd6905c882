"""Configurations over small datasets of real files, for everything that starts from a RunConfig."""

import json
from pathlib import Path

import numpy as np
import yaml
from makers.clips import ClipSpec, write_clip
from makers.openers import QWEN25
from makers.rows import write_jsonl
from PIL import Image

BUDGETS = {
    "image": {"min_pixels": 784, "max_pixels": 84 * 84},
    "video": {"min_pixels": 784, "max_pixels": 56 * 56, "max_frames": 8, "sample_fps": 2.0},
}


def geometry_folder(folder: Path) -> Path:
    """As much of a Qwen2.5-VL model folder as opening media reads; its geometry is `makers.openers.QWEN25`."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2_5_vl", "vision_config": {}}))
    settings = {
        "patch_size": QWEN25.patch_size,
        "merge_size": QWEN25.merge_size,
        "temporal_patch_size": QWEN25.temporal_patch_size,
        "image_mean": QWEN25.image_mean,
        "image_std": QWEN25.image_std,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    return folder


def media_rows(folder: Path, *, images: int, clips: int = 0) -> list[dict]:
    """Rows with one picture each, then rows with one clip each; the files lie in `folder`."""
    rows = []
    for number in range(images):
        pixels = np.random.default_rng(number).integers(0, 256, (60 + number, 90, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
        rows.append({"prompt": "<image> What?", "answer": "a", "task": "t", "images": [f"{number}.png"]})
    for number in range(clips):
        write_clip(folder / f"{number}.mp4", ClipSpec(frames=30 + number))
        rows.append({"prompt": "<video> What?", "answer": "a", "task": "t", "videos": [f"{number}.mp4"]})
    return rows


def write_config(folder: Path, rows: list[dict], **more: object) -> Path:
    """A YAML file over these rows as `data.train`, with a model folder and a cache folder inside `folder`."""
    card = {"columns": {name: name for name in ("prompt", "answer", "task", "images", "videos", "id")}}
    dataset = {"path": str(write_jsonl(folder / "train.jsonl", rows)), "card": card}
    tree = {
        "model": {"path": str(geometry_folder(folder / "model"))},
        "budgets": BUDGETS,
        "data": {"train": [dataset], "decode_workers": 1},
        "cache": {"dir": str(folder / "cache")},
        **more,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return path
