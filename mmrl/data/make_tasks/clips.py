"""Puzzles of clips: parts to put in order, and the arrow of time. Parts are spans of the source; no clip is encoded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mmrl.data.make_tasks.puzzle import Making, Puzzle, Source, UnusableError
from mmrl.data.selfsupervised import jigsaw_spans, piece_numbers
from mmrl.data.video import ClipInfo, open_clip
from mmrl.errors import MediaError

READER = "pyav"
ARROW_SECONDS, ARROW_FPS = 4.0, 4.0
ARROW_PIXELS = 128 * 28 * 28  # of a frame: Visual Jigsaw's limit
LEAST_MOTION = 2.0  # mean gray levels between neighbouring frames: a still clip looks the same backward
DIRECTIONS = ("forward", "backward")
_SHORTER = "; --min-seconds lowers that"


class VideoJigsaw:
    """Visual Jigsaw: the parts of a clip, each a clip of its own, in random order."""

    def __init__(self, pieces: int, trim: float, min_seconds: float) -> None:
        self.pieces, self.trim, self.min_seconds = pieces, trim, min_seconds

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        info = clip_info(source.path, min_seconds=self.min_seconds, remedy=_SHORTER)
        spans = jigsaw_spans(info.num_frames, pieces=self.pieces, trim=self.trim)
        if not spans:
            raise UnusableError(f"{info.num_frames} frames, {self.pieces} parts need at least {10 * self.pieces}")
        order = making.rng.permutation(self.pieces).tolist()
        labelled = "\n".join(f"Clip {n}: <video>" for n in range(1, self.pieces + 1))
        prompt = (
            f"{labelled}\nThese are the parts of one video in random order. Write the numbers of the clips in the "
            "order in which they happened, separated by commas."
        )
        answer = ", ".join(map(str, piece_numbers(order)))
        cells = [span_cell(source.path, info, spans[piece]) for piece in order]
        yield Puzzle(prompt, answer, videos=cells, columns={"order": order, "source": source.name})


class ClipOrder:
    """A few short parts of a clip, with random gaps between them, to be named in their order."""

    def __init__(self, pieces: int, min_seconds: float) -> None:
        self.pieces, self.min_seconds = pieces, min_seconds

    def __call__(self, source: Source, making: Making) -> Iterator[Puzzle]:
        info = clip_info(source.path, min_seconds=self.min_seconds, remedy=_SHORTER)
        spans = short_spans(info.num_frames, pieces=self.pieces, rng=making.rng)
        order = making.rng.permutation(self.pieces).tolist()
        letters = [chr(ord("A") + n) for n in range(self.pieces)]
        labelled = "\n".join(f"{letter}: <video>" for letter in letters)
        prompt = (
            f"{labelled}\nIn which order did these clips happen? Write their letters, the earliest first, separated by "
            "commas."
        )
        answer = ", ".join(letters[number - 1] for number in piece_numbers(order))
        cells = [span_cell(source.path, info, spans[piece]) for piece in order]
        yield Puzzle(prompt, answer, videos=cells, columns={"order": order, "source": source.name})


def short_spans(num_frames: int, *, pieces: int, rng: np.random.Generator) -> list[range]:
    """In each of `pieces` equal parts of a clip a span of half its length, at random. UnusableError for short clips."""
    length = num_frames // pieces
    if length < 8:
        raise UnusableError(f"{num_frames} frames, {pieces} parts need at least {8 * pieces}")
    starts = [part * length + int(rng.integers(0, length - length // 2 + 1)) for part in range(pieces)]
    return [range(start, start + length // 2) for start in starts]


def arrow_of_time(source: Source, making: Making) -> Iterator[Puzzle]:
    """The frames of a few seconds, in their order or backward. They are pictures: no container can be read backward."""
    info = clip_info(source.path, min_seconds=ARROW_SECONDS)
    start_s = float(making.rng.uniform(0.0, max(0.0, info.duration_s - ARROW_SECONDS)))
    wanted = [start_s + n / ARROW_FPS for n in range(int(ARROW_SECONDS * ARROW_FPS))]
    indices = [int(np.searchsorted(info.timestamps_s, time_s + 1e-6, side="right")) - 1 for time_s in wanted]
    frames = _frames(source.path, indices)
    gray = [frame.mean(axis=2) for frame in frames]
    motion = float(np.mean([np.abs(b - a).mean() for a, b in itertools.pairwise(gray)]))
    if motion < LEAST_MOTION:
        raise UnusableError(f"nothing moves from {start_s:.1f} s on: neighbouring frames differ by {motion:.2f} levels")
    direction = making.turns.pick(2)
    paths = [
        making.media.picture(f"{source.name}/v{making.version}-frame-{n:02d}", frame) for n, frame in enumerate(frames)
    ]
    shown = paths[::-1] if direction else paths
    prompt = "<video>Does this clip play forward or backward? Answer forward or backward."
    columns = {"options": list(DIRECTIONS), "frame_indices": indices, "source": source.name}
    yield Puzzle(prompt, DIRECTIONS[direction], videos=[{"frames": shown, "source_fps": ARROW_FPS}], columns=columns)


def clip_info(path: Path, *, min_seconds: float, remedy: str = "") -> ClipInfo:
    """The timeline of a clip. Raises MediaError, also for a file cut short; UnusableError for a clip too short.

    remedy: what the reader can do about that.
    """
    with open_clip(path, reader=READER) as clip:
        info = clip.info
    if info.missing_frames != 0:
        lost = "an unknown number of" if info.missing_frames is None else info.missing_frames
        raise MediaError(path, f"the file has lost {lost} of its frames")
    if info.duration_s < min_seconds:
        raise UnusableError(f"lasts {info.duration_s:.1f} s, this kind needs at least {min_seconds:g} s{remedy}")
    return info


def span_cell(path: Path, info: ClipInfo, span: range) -> dict[str, Any]:
    """A cell that shows exactly these frames of a clip."""
    times_s = (*info.timestamps_s, info.duration_s)
    return {"video": str(path), "start_s": round(times_s[span.start], 6), "end_s": round(times_s[span.stop], 6)}


def _frames(path: Path, indices: Sequence[int]) -> list[np.ndarray]:
    with open_clip(path, reader=READER) as clip:
        found = {index: _smaller(rgb_HW3) for index, rgb_HW3 in clip.frames(sorted(set(indices)))}
    lost = sorted(set(indices) - found.keys())
    if lost:
        raise MediaError(path, f"frame {lost[0]} does not decode")
    return [found[index] for index in indices]


def _smaller(rgb_HW3: np.ndarray) -> np.ndarray:
    """At most ARROW_PIXELS, aspect ratio kept."""
    height, width = rgb_HW3.shape[:2]
    scale = min(1.0, (ARROW_PIXELS / (height * width)) ** 0.5)
    size = (max(1, int(width * scale)), max(1, int(height * scale)))
    return np.asarray(Image.fromarray(rgb_HW3).resize(size, Image.Resampling.BICUBIC))
