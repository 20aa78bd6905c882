"""Coordinate spaces of boxes, points and times, the one conversion between them, and their overlaps. Pure.

A place is declared by the dataset in one space and written by the model in another. The spaces:

    original_px   pixels of the medium as stored, after EXIF or display rotation
    model_px      pixels of the resized medium, the ones the model sees
    0..N          share of width and height (boxes, points) or of the clip's duration (times), times N
    seconds       seconds from the clip's start (times only)

A tube (boxes by time) has two: `original_px at seconds`.

Boxes are `x1, y1, x2, y2` with continuous edges: a picture W pixels wide reaches from 0 to W, and a box has the area
(x2 - x1) * (y2 - y1). A picture resized from 100 x 80 to 84 x 56 maps x by 84/100 and y by 56/80:

>>> convert_box((50, 40, 100, 80), "original_px", "model_px", source_size=(100, 80), model_size=(84, 56))
(42.0, 28.0, 84.0, 56.0)
>>> convert_box((50, 40, 100, 80), "original_px", "0..1000", source_size=(100, 80), model_size=(84, 56))
(500.0, 500.0, 1000.0, 1000.0)
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmrl.data.sample import GeometryKind, Sample
from mmrl.errors import ConfigError, DataError
from mmrl.scoring.parse import extract_prediction, parse_geometry
from mmrl.scoring.places import COUNTS, move_places

if TYPE_CHECKING:
    from mmrl.data.rendered import MediaEntry

Size = tuple[int, int]
Box = tuple[float, float, float, float]

KNOWN_SPACES = "original_px, model_px, 0..1, 0..1000 (any 0..N with N > 0), seconds"
_TUBE = " at "
_SHARE = re.compile(r"0\.\.(\d+(?:\.\d+)?)")
_FRACTION_DECIMALS = 3
_SECONDS_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class Space:
    """A parsed space: `kind` is `original`, `model`, `share` or `seconds`; `scale` is the N of `0..N`, else 1."""

    name: str
    kind: str
    scale: float = 1.0

    @property
    def decimals(self) -> int:
        """Decimals a value is written with: none for pixels and for 0..N with N > 1."""
        if self.kind == "seconds":
            return _SECONDS_DECIMALS
        return _FRACTION_DECIMALS if self.kind == "share" and self.scale <= 1 else 0


_NAMED = {
    "original_px": Space("original_px", "original"),
    "model_px": Space("model_px", "model"),
    "seconds": Space("seconds", "seconds"),
}


def parse_space(name: str) -> Space:
    """The space of that name; ConfigError lists the known ones."""
    if name in _NAMED:
        return _NAMED[name]
    match = _SHARE.fullmatch(name)
    if match and float(match[1]) > 0:
        return Space(name, "share", float(match[1]))
    raise ConfigError(f"unknown coordinate space {name!r}; known: {KNOWN_SPACES}")


def parse_spaces(name: str) -> tuple[Space, ...]:
    """The space of an answer, or of a tube both: that of its boxes and that of its times."""
    return tuple(parse_space(part) for part in name.split(_TUBE, 1))


def check_space(name: str, *, kind: GeometryKind) -> Space:
    """The space (of a tube: of its boxes), or ConfigError when this kind of geometry has no meaning in it."""
    if kind == "tube":
        boxes, at, times = name.partition(_TUBE)
        if not at:
            raise ConfigError(f"boxes by time have two spaces, 'original_px at seconds' for one, not {name!r}")
        check_space(times, kind="time")
        return check_space(boxes, kind="box")
    space = parse_space(name)
    allowed = ("seconds", "share") if kind == "time" else ("original", "model", "share")
    if space.kind not in allowed:
        fit = "seconds, 0..N" if kind == "time" else "original_px, model_px, 0..N"
        raise ConfigError(f"a {kind} cannot be in the space {name!r}; use one of {fit}")
    return space


def _extent(space: Space, *, source_size: Size, model_size: Size) -> tuple[float, float]:
    if space.kind == "share":
        return space.scale, space.scale
    return source_size if space.kind == "original" else model_size


def convert_point(
    point: Sequence[float], source_space: str, target_space: str, *, source_size: Size, model_size: Size
) -> tuple[float, float]:
    """`x, y` in another space. Sizes are (width, height): `source_size` in original, `model_size` in model pixels.

    Exact up to float rounding, invertible, not rounded to the target's grid (see `round_to_space`).
    """
    source = check_space(source_space, kind="point")
    target = check_space(target_space, kind="point")
    x, y = (float(v) for v in point)
    if source == target:
        return x, y
    from_w, from_h = _extent(source, source_size=source_size, model_size=model_size)
    to_w, to_h = _extent(target, source_size=source_size, model_size=model_size)
    return x * to_w / from_w, y * to_h / from_h


def convert_box(
    box: Sequence[float], source_space: str, target_space: str, *, source_size: Size, model_size: Size
) -> Box:
    """`x1, y1, x2, y2` in another space; both corners as in `convert_point`."""
    x1, y1, x2, y2 = box
    upper = convert_point((x1, y1), source_space, target_space, source_size=source_size, model_size=model_size)
    lower = convert_point((x2, y2), source_space, target_space, source_size=source_size, model_size=model_size)
    return (*upper, *lower)


def convert_time(
    times: Sequence[float], source_space: str, target_space: str, *, duration_s: float
) -> tuple[float, ...]:
    """Times (a moment, a span, or more) of a clip that lasts `duration_s`, in another space.

    >>> convert_time((3.0, 6.0), "seconds", "0..100", duration_s=12.0)
    (25.0, 50.0)
    """
    source, target = check_space(source_space, kind="time"), check_space(target_space, kind="time")
    if source == target:
        return tuple(float(t) for t in times)
    length_from = duration_s if source.kind == "seconds" else source.scale
    length_to = duration_s if target.kind == "seconds" else target.scale
    return tuple(t * length_to / length_from for t in times)


def round_to_space(values: Sequence[float], space: str) -> tuple[float, ...]:
    """Values as they are written in a space: integers in pixels and 0..N with N > 1; else 2 (seconds) or 3 decimals.

    Halves go up, so that rounding does not depend on the parity of the neighbour.
    """
    decimals = parse_space(space).decimals
    if decimals == 0:
        return tuple(math.floor(v + 0.5) for v in values)
    return tuple(round(v, decimals) for v in values)


def format_geometry(values: Sequence[float], kind: GeometryKind) -> str:
    """The text of a box, point or time whose values are already in the writer's space: numbers and single blanks.

    >>> format_geometry((12, 30, 44, 60), "box"), format_geometry((1.5, 7.25), "time")
    ('12 30 44 60', '1.5 7.25')
    """
    _check_count(values, kind=kind)
    return " ".join(_shortest(v) for v in values)


def _shortest(value: float) -> str:
    text = f"{value:.{_FRACTION_DECIMALS}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _check_count(values: Sequence[float], *, kind: GeometryKind) -> None:
    counts = COUNTS[kind]
    if len(values) not in counts:
        raise ValueError(f"a {kind} has {' or '.join(map(str, counts))} numbers, not {len(values)}")


def answer_medium(media: Sequence[MediaEntry], *, kind: GeometryKind) -> MediaEntry | None:
    """The medium that an answer speaks about: the first clip for times, the first medium for a place; None: none."""
    return next((entry for entry in media if kind not in ("time", "tube") or entry.kind == "video"), None)


def describe_space(space: str, media_entry: MediaEntry, *, kind: GeometryKind) -> str:
    """What the numbers of an answer are, in words for a prompt: `... the left edge of the box in <these words>`.

    `model_px` of a picture of 84 x 56: "pixels of the image, which is 84 wide and 56 high".
    """
    found = check_space(space, kind=kind)
    noun, scale = media_entry.kind, f"{found.scale:g}"
    if kind == "time":
        from_start = "seconds from the start of the video"
        return from_start if found.kind == "seconds" else f"numbers from 0, the video's start, to {scale}, its end"
    if found.kind == "share":
        return f"numbers from 0, the left or top edge of the {noun}, to {scale}, its right or bottom edge"
    width, height = media_entry.source_size if found.kind == "original" else media_entry.model_size
    return f"pixels of the {noun}, which is {width} wide and {height} high"


def place(
    values: Sequence[float],
    media_entry: MediaEntry,
    *,
    kind: GeometryKind,
    source_space: str,
    target_space: str,
    rounded: bool = True,
) -> tuple[float, ...]:
    """A box, point or time of this medium, converted and, if `rounded`, rounded to the grid of `target_space`.

    The one way a place gets into the model's space, so an answer, a demonstration and a box inside a prompt agree.
    Raises ValueError for a wrong count of numbers, for numbers that are not finite, and for a box that is reversed or
    wholly outside the medium; ConfigError for a space that does not fit the kind.
    """
    _check_count(values, kind=kind)
    if not all(map(math.isfinite, values)):
        raise ValueError("its numbers are not finite")
    if kind == "box":
        _check_box(values, media_entry, space=source_space)
    if source_space == target_space:
        check_space(source_space, kind=kind)
        moved = tuple(float(v) for v in values)
    elif kind == "time":
        moved = convert_time(values, source_space, target_space, duration_s=_duration(media_entry))
    else:
        convert = convert_box if kind == "box" else convert_point
        sizes = {"source_size": media_entry.source_size, "model_size": media_entry.model_size}
        moved = convert(values, source_space, target_space, **sizes)
    return round_to_space(moved, target_space) if rounded else tuple(moved)


def _check_box(box: Sequence[float], media_entry: MediaEntry, *, space: str) -> None:
    """ValueError for a box that no answer could meet: its reward would be 0 for every completion."""
    x1, y1, x2, y2 = box
    if x1 > x2 or y1 > y2:
        raise ValueError("a box is x1 y1 x2 y2 with x1 <= x2 and y1 <= y2 (not x, y, width, height)")
    found = check_space(space, kind="box")
    width, height = _extent(found, source_size=media_entry.source_size, model_size=media_entry.model_size)
    if x2 < 0 or y2 < 0 or x1 > width or y1 > height:
        raise ValueError(
            f"it lies outside the {media_entry.kind}, which reaches to {width:g} {height:g} in {space}; "
            "is that the space of the answers?"
        )


def _duration(media_entry: MediaEntry) -> float:
    if not media_entry.duration_s:
        raise ValueError("a time needs a clip with a duration; this medium has none")
    return media_entry.duration_s


@dataclass(frozen=True, slots=True)
class _Move:
    """Moves places of one medium. Spaces: of boxes and points, and of times; None where the answer holds none."""

    medium: MediaEntry
    box_spaces: tuple[str, str] | None
    time_spaces: tuple[str, str] | None
    rounded: bool

    def place(self, values: Sequence[float], kind: GeometryKind) -> list[float]:
        spaces = self.time_spaces if kind == "time" else self.box_spaces
        assert spaces is not None  # move_places rejects kinds that the reward does not declare
        numbers = [float(v) for v in values]
        source, target = spaces
        moved = place(numbers, self.medium, kind=kind, source_space=source, target_space=target, rounded=self.rounded)
        return list(moved)

    def extent(self, mask_size: Size) -> list[float]:
        assert self.box_spaces is not None
        source = parse_space(self.box_spaces[0])
        if source.kind != "share" and mask_size != _extent(source, **self._sizes):
            raise ValueError(f"a mask of {mask_size} cells does not cover the picture in the space {source.name}")
        return self.picture()

    def picture(self) -> list[float]:
        """Width and height of the whole picture in the model's space."""
        assert self.box_spaces is not None
        return list(_extent(parse_space(self.box_spaces[1]), **self._sizes))

    @property
    def _sizes(self) -> dict[str, Size]:
        return {"source_size": self.medium.source_size, "model_size": self.medium.model_size}


def to_model_space(
    sample: Sample,
    media_entry: MediaEntry,
    *,
    kind: GeometryKind,
    box_space: str | None,
    time_space: str | None,
    rounded: bool = True,
) -> Sample:
    """The sample with its answer, and its `demonstration` column where there is one, in the space the model writes.

    kind: what the task's reward declares (`GEOMETRY`). media_entry: the medium the answer speaks about, resized.
    box_space (boxes, points) and time_space (times): the model's. rounded: to the grid that the model writes.
    Numbers stay a flat list, anything else keeps the form it has (see `mmrl.scoring.places`); text that is one place
    becomes its numbers, JSON text becomes JSON; demonstration text already in the model's space stays as it is.
    The returned sample says the model's space in `answer_space`, so a second call changes nothing, and of boxes and
    points the picture's width and height in that space in the column `answer_extent`.
    Raises ConfigError for a missing space and DataError, naming the sample, for values that are no such geometry.
    """
    source, target = sample.answer_space, model_space(kind, box_space=box_space, time_space=time_space)
    if source is None or target is None:
        raise ConfigError(missing_space(kind, task=sample.task, answer=source, model=target))
    check_space(source, kind=kind)
    mover = _mover(media_entry, kind=kind, source=source, target=target, rounded=rounded)

    def moved(values: Any) -> Any:
        found = _read_text(values, kind=kind) if isinstance(values, str) else values
        return move_places(found, kind=kind, mover=mover)

    columns = dict(sample.columns)
    shown = columns.get("demonstration")
    if shown is not None and not (isinstance(shown, str) and source == target):
        columns["demonstration"] = _named(moved, shown, f"{sample.where}: demonstration {shown!r} is not a {kind}")
    if mover.box_spaces is not None:
        columns["answer_extent"] = mover.picture()
    gold = extract_prediction(sample.answer) if isinstance(sample.answer, str) else sample.answer
    answer = _named(moved, gold, f"{sample.where}: answer {sample.answer!r} is not a {kind}")
    return dataclasses.replace(sample, answer=answer, answer_space=target, columns=columns)


def model_space(kind: GeometryKind, *, box_space: str | None, time_space: str | None) -> str | None:
    """The space the model writes this kind of place in; None where it (of a tube: either) is not declared."""
    if kind == "tube":
        return f"{box_space}{_TUBE}{time_space}" if box_space and time_space else None
    return time_space if kind == "time" else box_space


def _mover(media_entry: MediaEntry, *, kind: GeometryKind, source: str, target: str, rounded: bool) -> _Move:
    if kind != "tube":
        both = (source, target)
        return _Move(media_entry, None if kind == "time" else both, both if kind == "time" else None, rounded)
    (box_from, time_from), (box_to, time_to) = source.split(_TUBE), target.split(_TUBE)
    return _Move(media_entry, (box_from, box_to), (time_from, time_to), rounded)


def _read_text(text: str, *, kind: GeometryKind) -> Any:
    """JSON that holds labels, keys or masks as it is; other text as the one place it is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) or (isinstance(found, list) and any(isinstance(v, dict | list) for v in found)):
        return found
    numbers = None if kind == "tube" else parse_geometry(text, kind=kind)
    if numbers is None:
        raise ValueError("its numbers cannot be read")
    return list(numbers)


def _named(move: Callable[[Any], Any], values: Any, message: str) -> Any:
    try:
        return move(values)
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"{message}: {error}") from error


def missing_space(kind: GeometryKind, *, task: str, answer: str | None, model: str | None) -> str:
    """The message for a geometry task whose spaces are not all declared; it names the key to set."""
    key = {"time": "model.time_space", "tube": "model.box_space` and `model.time_space"}.get(kind, "model.box_space")
    missing = "the card's `answer_space`" if answer is None else f"`{key}` (the model family has no default)"
    assert answer is None or model is None
    return f"task {task!r} has a {kind} as its answer, so {missing} must be set to one of: {KNOWN_SPACES}"


def box_iou(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two xyxy boxes with continuous areas; 0 where either has no positive area.

    >>> round(box_iou((10, 10, 60, 60), (20, 20, 70, 70)), 6)
    0.470588
    """
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0 or min(_area(a), _area(b)) <= 0:
        return 0.0
    inter = width * height
    return inter / (_area(a) + _area(b) - inter)


def _area(box: Sequence[float]) -> float:
    # A reversed box has no area, even when both sides are reversed and the product is positive.
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def temporal_iou(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two spans (start, end); 0 where either is empty or reversed.

    >>> round(temporal_iou((10, 20), (15, 25)), 4)
    0.3333
    """
    inter = min(a[1], b[1]) - max(a[0], b[0])
    if inter <= 0:
        return 0.0
    return inter / (max(a[1], b[1]) - min(a[0], b[0]))


def temporal_iop(prediction: Sequence[float], gold: Sequence[float]) -> float:
    """Intersection over the length of the predicted span; 0 where that is empty or reversed.

    >>> temporal_iop((12, 22), (10, 20)), temporal_iop((14, 16), (10, 20)), temporal_iop((30, 40), (10, 20))
    (0.8, 1.0, 0.0)
    """
    inter = min(prediction[1], gold[1]) - max(prediction[0], gold[0])
    return inter / (prediction[1] - prediction[0]) if inter > 0 else 0.0
