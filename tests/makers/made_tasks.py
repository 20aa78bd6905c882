"""Self-supervised tasks made of real media, read back as samples and scored by their own reward."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from makers.real_media import packaged

from mmrl.config.schema import DataSection, DatasetSection
from mmrl.data.make_tasks.kinds import KINDS
from mmrl.data.make_tasks.make import Made, Request, make_tasks
from mmrl.data.make_tasks.puzzle import TaskOptions
from mmrl.data.readers import read_dataset
from mmrl.data.sample import Sample
from mmrl.data.skipped import SkippedLog
from mmrl.plugins import load_module, shipped_dir

PICTURES = ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg")


def photos(folder: Path, names: tuple[str, ...] = PICTURES) -> Path:
    """A folder of pictures that scikit-image ships."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copy(packaged("skimage", f"data/{name}"), folder / name)
    return folder


def make(kind: str, folder: Path, out: Path, *, seed: int = 0, epochs: int = 1, **options: Any) -> Made:
    return make_tasks(Request(kind, folder, out, options=TaskOptions(**options), seed=seed, epochs=epochs))


def rows_of(out: Path, split: str = "train") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]


def samples_of(out: Path, split: str = "train") -> list[Sample]:
    """Read with the card that was written."""
    section = DatasetSection(path=str(out / f"{split}.jsonl"), card=str(out / "card.yaml"))
    log = SkippedLog(None, max_fraction=0.0)
    return list(read_dataset(section, data=DataSection(), relative_to=out, skipped=log))


def scored(completion: str, sample: Sample) -> float:
    """The stated reward of a completion."""
    value = load_module(shipped_dir("rewards") / f"{KINDS[sample.task].reward}.py").score(completion, sample)
    return value["reward"] if isinstance(value, dict) else value


def files_of(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}
