"""A dataset in which every row has one fault, named by its id, for the pages that show what is said about each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from makers.clips import ClipSpec, cut_file, write_clip
from makers.media import write_frames, write_picture
from makers.rows import write_jsonl
from PIL import Image

_QUESTION = {"prompt": "<image>What is it?", "answer": "a", "task": "t"}
_CLIP = {"prompt": "<video>What happens?", "answer": "a", "task": "t"}


def write_faulty_rows(folder: Path) -> Path:
    """`train.jsonl` with its media beside it; the columns are sample fields. Its first row is good."""
    folder.mkdir(parents=True)
    _write_pictures(folder)
    _write_clips(folder)
    return write_jsonl(folder / "train.jsonl", list(_rows()))


def _write_pictures(folder: Path) -> None:
    good = write_picture(folder / "good.png", size=(640, 480)).read_bytes()
    (folder / "cut.png").write_bytes(good[: len(good) // 2])
    write_picture(folder / "whole.jpg", size=(640, 480), format="JPEG")
    cut_file(folder / "whole.jpg", keep=0.5).rename(folder / "cut.jpg")
    (folder / "page.jpg").write_bytes(b"<!DOCTYPE html><title>404 Not Found</title>")
    (folder / "empty.png").touch()
    write_picture(folder / "strip.png", size=(5000, 10))
    Image.fromarray(np.ones((8, 8), dtype=np.float32)).save(folder / "depth.tiff")


def _write_clips(folder: Path) -> None:
    write_clip(folder / "good.mp4", ClipSpec(frames=30))
    write_clip(folder / "whole.mp4", ClipSpec(frames=240, fps=24))
    cut_file(folder / "whole.mp4", keep=0.6).rename(folder / "tail.mp4")
    write_clip(folder / "indexed_last.mp4", ClipSpec(frames=60, fast_start=False))
    cut_file(folder / "indexed_last.mp4", keep=0.5).rename(folder / "cut.mp4")
    (folder / "gap").mkdir()
    write_frames(folder / "gap", 4)
    (folder / "gap" / "2.png").unlink()


def _rows() -> Iterator[dict[str, Any]]:
    yield {"id": "good", **_QUESTION, "images": ["good.png"]}
    yield {"id": "good", **_QUESTION, "images": ["good.png"]}
    yield {"id": "one-too-few", **_QUESTION, "prompt": "<image><image>Which?", "images": ["good.png"]}
    yield {"id": "no-place", **_QUESTION, "prompt": "What is it?", "images": ["good.png"]}
    yield {"id": "word", **_QUESTION, "prompt": "What does <image> do in SVG?", "images": []}
    yield {"id": "no-answer", "prompt": "What is it?", "task": "t"}
    for name in ("gone.png", "photos\\dog.png", "data/good.png", "https://example.org/dog.png"):
        yield {"id": name, **_QUESTION, "images": [name]}
    for name in ("cut.png", "cut.jpg", "page.jpg", "empty.png", "strip.png", "depth.tiff"):
        yield {"id": name, **_QUESTION, "images": [name]}
    for name in ("cut.mp4", "tail.mp4"):
        yield {"id": name, **_CLIP, "videos": [name]}
    yield {"id": "gap", **_CLIP, "videos": [{"frames": "gap", "source_fps": 5}]}
    yield {"id": "no-rate", **_CLIP, "videos": [["gap/0.png", "gap/1.png"]]}
    yield {"id": "no-frames", **_CLIP, "videos": [{"video": "good.mp4", "nframes": 0}]}
    yield {"id": "too-late", **_CLIP, "videos": [{"video": "good.mp4", "start_s": 60}]}
    yield {"id": "typo", **_CLIP, "videos": [{"video": "good.mp4", "max_frame": 8}]}
