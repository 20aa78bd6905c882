"""The kinds of self-supervised task by name: what they are made of, who makes them, and what scores their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mmrl.data.make_tasks import folder
from mmrl.data.make_tasks.choices import MultipleChoice
from mmrl.data.make_tasks.clips import ClipOrder, VideoJigsaw, arrow_of_time
from mmrl.data.make_tasks.composed import Composed
from mmrl.data.make_tasks.depth import DepthOrder
from mmrl.data.make_tasks.logic import LogicPuzzles, planned
from mmrl.data.make_tasks.pictures import Contrastive, ImageJigsaw, MaskedPatch, position, rotation
from mmrl.data.make_tasks.puzzle import Maker, Source, TaskOptions
from mmrl.errors import ConfigError, did_you_mean

DOCUMENT_PACKAGES = {"reportlab": "reportlab", "matplotlib": "matplotlib", "mdit_py_plugins": "mdit-py-plugins"}
_TAGGED = "{prompt} Think first, then put the final answer between <answer> and </answer>."


@dataclass(frozen=True)
class Kind:
    """A kind of task.

    find: sources of a folder and what was passed over. maker: from the sources of one split and the options. reward:
    shipped reward of its answers. chance: expected reward of blind guessing under some options, in words. budgets: of
    the configuration that is proposed. defaults: the options it has. modality: budget class of its media; None: by
    their kind. demonstration: column of what a supervised stage imitates. template: what the proposed configuration
    puts around a prompt.
    """

    summary: str
    find: Callable[[Path, TaskOptions], folder.Found]
    maker: Callable[[Sequence[Source], Any], Maker]
    reward: str
    chance: Callable[[Any], str]
    budgets: Mapping[str, Mapping[str, float]]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    modality: str | None = None
    demonstration: str | None = None
    template: str | None = _TAGGED
    max_new_tokens: int = 1024


def _documents(sources: Sequence[Source], options: TaskOptions) -> Maker:
    missing = [package for module, package in DOCUMENT_PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise ConfigError(f"documents need the packages {', '.join(missing)}; pip install 'mmrl[documents]'")
    from mmrl.data.make_tasks.documents import Documents

    return Documents(sources, options.renderer or "pages")


def permutation_chance(pieces: int, *, partial: float = 0.2) -> float:
    """Expected reward of a random order of K pieces, by `jigsaw` and `order`: p + partial (1 / K - p), p = 1 / K!.

    >>> round(permutation_chance(9), 3), round(permutation_chance(3), 3)
    (0.022, 0.2)
    """
    right = 1 / math.factorial(pieces)
    return right + partial * (1 / pieces - right)


_PICTURE = {"image": {"min_pixels": 784, "max_pixels": 200704}}
_CLIP = {"video": {"min_pixels": 784, "max_pixels": 100352, "max_frames": 12, "sample_fps": 2.0}}
_ARROW = {"video": {"min_pixels": 784, "max_pixels": 100352, "max_frames": 16, "sample_fps": 4.0}}
_PAGE = {"ocr": {"min_pixels": 784, "max_pixels": 1605632}}

KINDS: dict[str, Kind] = {
    "image-jigsaw": Kind(
        "tiles of a picture in random order",
        folder.pictures,
        lambda sources, options: ImageJigsaw(options.grid),
        reward="jigsaw",
        chance=lambda options: f"{permutation_chance(options.grid[0] * options.grid[1]):.3f}",
        budgets=_PICTURE,
        defaults={"grid": (3, 3)},
    ),
    "video-jigsaw": Kind(
        "parts of a clip in random order",
        folder.clips,
        lambda sources, options: VideoJigsaw(options.pieces, options.trim, options.min_seconds),
        reward="jigsaw",
        chance=lambda options: f"{permutation_chance(options.pieces):.3f}",
        budgets=_CLIP,
        defaults={"pieces": 6, "trim": 0.1, "min_seconds": 24.0},
    ),
    "points-3d": Kind(
        "numbered points of an RGB-D picture, from near to far",
        folder.depth_pairs,
        lambda sources, options: DepthOrder(options.pieces, options.depth_scale),
        reward="jigsaw",
        chance=lambda options: f"{permutation_chance(options.pieces):.3f}",
        budgets={"image": {"min_pixels": 784, "max_pixels": 602112}},
        defaults={"pieces": 6, "depth_scale": 0.001},
    ),
    "rotation": Kind(
        "by how many degrees a picture was turned",
        folder.pictures,
        lambda sources, options: rotation,
        reward="rotation",
        chance=lambda options: "0.25",
        budgets=_PICTURE,
    ),
    "position": Kind(
        "in which quadrant a crop lies",
        folder.pictures,
        lambda sources, options: position,
        reward="position",
        chance=lambda options: "0.25",
        budgets=_PICTURE,
    ),
    "contrastive": Kind(
        "whether two changed views come from one picture",
        folder.pictures,
        lambda sources, options: Contrastive(sources),
        reward="choice",
        chance=lambda options: "0.5",
        budgets=_PICTURE,
    ),
    "clip-order": Kind(
        "short parts of a clip, named in their order",
        folder.clips,
        lambda sources, options: ClipOrder(options.pieces, options.min_seconds),
        reward="order",
        chance=lambda options: f"{permutation_chance(options.pieces):.3f}",
        budgets=_CLIP,
        defaults={"pieces": 3, "min_seconds": 3.0},
    ),
    "arrow-of-time": Kind(
        "whether a clip plays forward or backward",
        folder.clips,
        lambda sources, options: arrow_of_time,
        reward="choice",
        chance=lambda options: "0.5",
        budgets=_ARROW,
    ),
    "masked-patch": Kind(
        "which patch belongs into a gray cell of a picture",
        folder.pictures,
        lambda sources, options: MaskedPatch(options.grid, options.pieces),
        reward="choice",
        chance=lambda options: f"{1 / options.pieces:.3g}",
        budgets=_PICTURE,
        defaults={"grid": (4, 4), "pieces": 4},
    ),
    "document": Kind(
        "pages of HTML or Markdown drawn as pictures, with tests on their transcription",
        folder.documents,
        _documents,
        reward="page_tests",
        chance=lambda options: "at most 0.1 (an empty page)",
        budgets=_PAGE,
        defaults={"renderer": "pages"},
        modality="ocr",
        demonstration="transcription",
        template=None,
        max_new_tokens=4096,
    ),
    "multiple-choice": Kind(
        "open questions of a data file with options from other rows' answers",
        folder.rows,
        lambda sources, options: MultipleChoice(sources, options.pieces),
        reward="choice",
        chance=lambda options: f"{1 / options.pieces:.3g}",
        budgets=_PICTURE | _CLIP,
        defaults={"pieces": 4, "card": "easyr1"},
    ),
    "composed": Kind(
        "questions of a data file behind each other, each with the answer of the one before",
        folder.rows,
        lambda sources, options: Composed(sources, options.pieces),
        reward="math",
        chance=lambda options: "0",
        budgets={},
        defaults={"pieces": 2, "card": "easyr1"},
    ),
    "logic-puzzles": Kind(
        "logic puzzles of the kinds and levels that a file plans",
        planned,
        lambda sources, options: LogicPuzzles(),
        reward="puzzle",
        chance=lambda options: "at most 0.17 (three things to put in order), most 0",
        budgets={},
    ),
}


def find_kind(name: str) -> Kind:
    """The kind of this name; ConfigError that lists the known ones."""
    if name not in KINDS:
        raise ConfigError(f"unknown kind {name!r}; known: {', '.join(KINDS)}{did_you_mean(name, KINDS)}")
    return KINDS[name]


def resolved(name: str, options: TaskOptions) -> TaskOptions:
    """The options with the kind's defaults filled in; ConfigError for one that this kind does not have."""
    defaults = find_kind(name).defaults
    given = {f.name: getattr(options, f.name) for f in fields(options) if getattr(options, f.name) is not None}
    for option in given:
        if option not in defaults:
            users = ", ".join(kind for kind in KINDS if option in KINDS[kind].defaults)
            raise ConfigError(f"--{option.replace('_', '-')} is no option of {name}; it belongs to {users}")
    chosen = TaskOptions(**{**defaults, **given})
    _check(name, chosen)
    return chosen


def _check(name: str, options: TaskOptions) -> None:
    if options.grid is not None and not (min(options.grid) >= 1 and 2 <= options.grid[0] * options.grid[1] <= 100):
        raise ConfigError(f"--grid {options.grid[0]}x{options.grid[1]}: 2 to 100 tiles are possible")
    if options.pieces is not None and not 2 <= options.pieces <= 26:
        raise ConfigError(f"--pieces {options.pieces}: 2 to 26 are possible")
    if name == "masked-patch" and options.grid is not None and options.pieces is not None:
        cells = options.grid[0] * options.grid[1]
        if options.pieces > cells // 2:
            raise ConfigError(
                f"--pieces {options.pieces} of {cells} cells leaves too little of a picture; at most half"
            )
    if options.trim is not None and not 0.0 <= options.trim < 0.5:
        raise ConfigError(f"--trim {options.trim:g} is no share from 0 to below 0.5")
