"""Answers made of places, and their way from one space into another. Pure.

A place is a box, a point or a span of time. An answer holds one place, or several in any of these forms:

    [10, 20, 30, 40]                                        one place, by the reward's kind
    [[10, 20, 30, 40], [50, 60, 70, 80]]                    a list
    [{"bbox_2d": [10, 20, 30, 40], "label": "dog"}]         under a key of KEYS; other keys stay as they are
    {"polygon": [[0, 0], [9, 0], [9, 9]]}                   a region: its corners
    {"size": [480, 640], "counts": "..."}                   a region: COCO's run-length mask, (height, width)
    {"action": "click", "box": [10, 20, 30, 40]}            an action, with or without a place
    {"time": [2, 9], "boxes": {"2": [..], "3.5": [..]}}     a tube: boxes by the second, and their span
    [{"time": 2, "objects": {"red cup": [[..]]}}]           a tube: named boxes in key frames
    {"answer": "B", "frames": [..]}                         key frames beside an answer that is no place
    {"answer": "B", "spans": [[2, 5.5]]}                    spans beside an answer that is no place
    {"times": [2, 5.5, 9]}                                  moments, any number of them

A mask keeps its own grid; it is given `extent`, the width and height of the whole picture in the new space, so that
a point of that space falls on the mask's cell (x * mask width / width, y * mask height / height).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from mmrl.data.sample import GeometryKind

KEYS: dict[str, GeometryKind] = {
    **dict.fromkeys(("bbox_2d", "bbox", "box", "boxes", "Position", "objects"), "box"),
    **dict.fromkeys(("point_2d", "point", "points", "coordinate", "polygon"), "point"),
    **dict.fromkeys(("time", "times", "span", "spans"), "time"),
    "frames": "tube",
}
COUNTS: dict[GeometryKind, tuple[int, ...]] = {"box": (4,), "point": (2,), "time": (1, 2)}
_HELD: dict[GeometryKind, tuple[GeometryKind, ...]] = {
    "box": ("box", "point"),
    "point": ("box", "point"),
    "time": ("time",),
    "tube": ("box", "point", "time", "tube"),
}


class Mover(Protocol):
    """What moves the numbers of one place, and of a mask its picture."""

    def place(self, values: Sequence[float], kind: GeometryKind) -> list[float]: ...

    def extent(self, mask_size: tuple[int, int]) -> list[float]: ...


def move_places(value: Any, *, kind: GeometryKind, mover: Mover) -> Any:
    """The same answer with every place moved. kind: what the task's reward declares.

    Raises ValueError for what is no place, for a key whose kind the reward does not declare (a time inside boxes would
    otherwise stay in its old space), and for times of a tube that fall together.
    """
    if isinstance(value, Mapping):
        return _moved_mapping(value, kind=kind, mover=mover)
    if isinstance(value, int | float) and kind == "time" and not isinstance(value, bool):
        return mover.place([value], "time")[0]
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r:.80} holds no place")
    if not any(isinstance(v, list | tuple | Mapping) for v in value) and value:
        if kind == "tube":
            raise ValueError(f"the bare numbers {value!r:.80} say neither box nor time")
        return mover.place(value, kind)
    return [move_places(v, kind=kind, mover=mover) for v in value]


def _moved_mapping(value: Mapping[str, Any], *, kind: GeometryKind, mover: Mover) -> dict[str, Any]:
    if "counts" in value and "size" in value and kind != "time":
        height, width = value["size"]
        stated = value.get("extent")
        extent = mover.extent((int(width), int(height))) if stated is None else mover.place(stated, "point")
        return {**value, "extent": extent}
    is_action = "action" in value  # on a screen; many have no place, and a table then has null under the key
    keys = [key for key in value if key in KEYS and not (is_action and value[key] is None)]
    if not keys and not is_action:
        raise ValueError(f"none of its keys {', '.join(map(repr, value))} is one of {', '.join(KEYS)}")
    moved = dict(value)
    for key in keys:
        inner = KEYS[key]
        if inner not in _HELD[kind]:
            raise ValueError(f"its {key!r} is a {inner}, but the task's reward declares a {kind}")
        moved[key] = _moved_entry(value[key], kind=inner, in_tube=kind == "tube", mover=mover)
    return moved


def _moved_entry(entry: Any, *, kind: GeometryKind, in_tube: bool, mover: Mover) -> Any:
    if kind == "time" and isinstance(entry, list | tuple):
        flat = all(isinstance(v, int | float) for v in entry)
        return (
            [t for v in entry for t in mover.place([v], "time")] if flat else move_places(entry, kind=kind, mover=mover)
        )
    if not (isinstance(entry, Mapping) and in_tube and kind == "box"):
        return move_places(entry, kind=kind, mover=mover)
    moved = {}
    for name, boxes in entry.items():
        moment = as_moment(name)
        key = name if moment is None else _shortest(mover.place([moment], "time")[0])
        if key in moved:
            raise ValueError(f"two of its times become {key} in the model's space")
        moved[key] = move_places(boxes, kind="box", mover=mover)
    return moved


def each_place(value: Any, *, kind: GeometryKind) -> Iterator[tuple[GeometryKind, tuple[float, ...]]]:
    """The single places of an answer with their kinds, in order; masks and the boxes of tubes are left out.

    >>> list(each_place([{"bbox_2d": [1, 2, 3, 4], "label": "dog"}], kind="box"))
    [('box', (1.0, 2.0, 3.0, 4.0))]
    """
    if isinstance(value, Mapping):
        for key in value.keys() & KEYS.keys():
            if kind != "tube" or KEYS[key] == "time":
                yield from each_place(value[key], kind=KEYS[key])
    elif value is None:
        return  # an action without a place
    elif isinstance(value, int | float):
        yield kind, (float(value),)
    elif value and not any(isinstance(v, list | tuple | Mapping) for v in value):
        yield kind, tuple(float(v) for v in value)
    else:
        for entry in value:
            yield from each_place(entry, kind=kind)


def as_moment(key: str) -> float | None:
    """The time that a key of a tube names; None where it is the name of an object."""
    try:
        moment = float(key)
    except (TypeError, ValueError):
        return None
    return moment if math.isfinite(moment) else None


def _shortest(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
