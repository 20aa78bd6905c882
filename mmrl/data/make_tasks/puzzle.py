"""What the makers of self-supervised tasks share: sources, puzzles, their options, and chance that a seed decides."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from mmrl.errors import MmrlError

ROW_COLUMNS = ("id", "problem", "answer", "images", "videos", "task", "version")  # of every row that is written
LEAST_SIDE = 28  # pixels: below it the smallest patch of the model families is enlarged
LEAST_TEXTURE = 4.0  # gray levels: a patch whose pixels vary less (sky, a wall) could lie anywhere


class UnusableError(MmrlError):
    """A source, or a part of one, that makes no puzzle; the message says why."""


@dataclass(frozen=True)
class Source:
    """One thing that puzzles are made of. name: relative path, or a row's id; unique in its folder.

    path: of the file. depth: of the depth picture that belongs to it. sample: the row, of kinds that rewrite rows.
    """

    name: str
    path: Path
    depth: Path | None = None
    sample: Any = None


@dataclass(frozen=True)
class Puzzle:
    """One row before it is written. name: what tells it from other puzzles of the same source and version.

    prompt: text with a `<image>` or `<video>` for each medium, or messages of parts.
    """

    prompt: str | list[dict[str, Any]]
    answer: Any
    images: Sequence[Any] = ()
    videos: Sequence[Any] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True)
class TaskOptions:
    """What the user chose. None, for options of single kinds: the kind's default, see `kinds.KINDS`.

    grid: rows and columns of tiles. pieces: tiles, clips, points, patches or options that one puzzle has. trim: share
    of a clip that is cut off at each end. min_seconds: shorter clips are skipped. depth_scale: metres of one unit.
    """

    grid: tuple[int, int] | None = None
    pieces: int | None = None
    trim: float | None = None
    min_seconds: float | None = None
    depth_scale: float | None = None
    card: str | None = None
    renderer: str | None = None


class Turns:
    """Picks of a fixed set that come equally often: each block of picks holds every one once, in random order."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._waiting: dict[int, list[int]] = {}

    def pick(self, count: int) -> int:
        """A number below `count`."""
        waiting = self._waiting.setdefault(count, [])
        if not waiting:
            waiting.extend(self._rng.permutation(count).tolist())
        return waiting.pop()


@dataclass(frozen=True)
class MediaFolder:
    """Where new media go. root: the folder of the rows; paths in rows are relative to it."""

    root: Path

    def picture(self, name: str, pixels_HW3: np.ndarray) -> str:
        """Write a PNG below media/ (once: the same name is the same picture) and return its path for a row."""
        return self.new_file(f"{name}.png", lambda path: Image.fromarray(pixels_HW3).save(path, compress_level=1))

    def new_file(self, name: str, write: Callable[[Path], None]) -> str:
        """The path for a row of a file below media/ that `write` writes if it is not there yet."""
        path = self.root / "media" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
        return path.relative_to(self.root).as_posix()


@dataclass(frozen=True)
class Making:
    """One version of one source: its random generator, the answers' turns, and where media go."""

    version: int
    rng: np.random.Generator
    turns: Turns
    media: MediaFolder


Maker = Callable[[Source, Making], Iterable["Puzzle | UnusableError"]]


def generator(seed: int, version: int, name: str) -> np.random.Generator:
    """Chance that depends on these three alone: another file in the folder changes nothing for this one."""
    digest = hashlib.sha256(name.encode("utf-8")).digest()
    return np.random.default_rng([seed, version, *np.frombuffer(digest, dtype=np.uint32).tolist()])


def has_texture(patch_HW3: np.ndarray) -> bool:
    """Whether a patch shows enough to be recognised: its gray levels have a standard deviation of LEAST_TEXTURE."""
    return float(patch_HW3.mean(axis=2).std()) >= LEAST_TEXTURE
