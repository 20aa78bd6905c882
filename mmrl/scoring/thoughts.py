"""What a thought says of things, places and times, in the tags that grounded reasoning is asked for. Pure.

<obj>name</obj><box>[x1, y1, x2, y2]</box><box>[...]</box>at<t>6.4</t>s
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mmrl.scoring.geometry import Box, box_iou
from mmrl.scoring.listings import read_detections, read_moments
from mmrl.scoring.parse import parse_values

NameRule = Literal["head", "soft", "exact"]

_TIME = re.compile(r"<t>\s*(\d{1,9}(?:\.\d{1,9})?)\s*</t>")
_CLAIM = re.compile(
    r"<obj>([^<>]{1,200})</obj>\s*((?:<box>[^<>]{1,200}</box>\s*)+)at\s*<t>\s*(\d{1,9}(?:\.\d{1,9})?)\s*</t>"
)
_BOX = re.compile(r"<box>([^<>]{1,200})</box>")


def thought(completion: str) -> str:
    """The text before the last `</think>`, without an opening tag; empty where no thought ends.

    >>> thought("<think>I see.</think><answer>B</answer>")
    'I see.'
    """
    before = completion.rpartition("</think>")[0]
    return before.partition("<think>")[2] or before


def is_explained(completion: str) -> bool:
    """Whether some text stands between the last `</think>` and the `<answer>` after it.

    >>> is_explained("<think>a</think>So 3.<answer>3</answer>"), is_explained("<think>a</think> <answer>3</answer>")
    (True, False)
    """
    between, answered, _ = completion.rpartition("</think>")[2].partition("<answer>")
    return "</think>" in completion and bool(answered) and bool(between.strip())


def told_times(text: str) -> tuple[float, ...]:
    """The moments in `<t>..</t>`, in order.

    >>> told_times("from <t>3</t>s to <t>4.5</t>s")
    (3.0, 4.5)
    """
    return tuple(float(moment) for moment in _TIME.findall(text))


def told_boxes(text: str) -> tuple[Box, ...]:
    """The boxes in `<box>..</box>` that can be read, in order.

    >>> told_boxes("<box>[0, 0, 10, 8]</box> and <box>here</box>")
    ((0.0, 0.0, 10.0, 8.0),)
    """
    read = (parse_values(box, count=4) for box in _BOX.findall(text))
    return tuple((b[0], b[1], b[2], b[3]) for b in read if b is not None)


@dataclass(frozen=True, slots=True)
class Claim:
    """A thought's claim that a thing is in these boxes at this time."""

    name: str
    boxes: tuple[Box, ...]
    time: float


@dataclass(frozen=True, slots=True)
class KeyFrame:
    """What is where at a time: the boxes of each named object."""

    time: float
    objects: Mapping[str, tuple[Box, ...]]


def claims(text: str) -> tuple[Claim, ...]:
    """The claims of a thought; one with a box that cannot be read keeps its other boxes.

    >>> claims("<obj>car</obj><box>[0, 0, 10, 8]</box>at<t>6.4</t>s")
    (Claim(name='car', boxes=((0.0, 0.0, 10.0, 8.0),), time=6.4),)
    """
    return tuple(Claim(name, told_boxes(boxes), float(time)) for name, boxes, time in _CLAIM.findall(text))


def read_key_frames(value: Any) -> tuple[KeyFrame, ...] | None:
    """Key frames from JSON: a list of `{"time": 6, "objects": {"red car": [[x1, y1, x2, y2], ...]}}`; None: no such."""
    frames = []
    for entry in value if isinstance(value, list | tuple) else [None]:
        objects = entry.get("objects") if isinstance(entry, Mapping) else None
        moment = read_moments(entry["time"]) if isinstance(entry, Mapping) and "time" in entry else None
        if not isinstance(objects, Mapping) or not moment or len(moment) != 1:
            return None
        boxes = {str(name): read_detections(value) for name, value in objects.items()}
        if not all(boxes.values()):
            return None
        frames.append(KeyFrame(moment[0], {n: tuple(d.box for d in found or ()) for n, found in boxes.items()}))
    return tuple(frames)


def same_thing(claimed: str, known: str, *, rule: NameRule) -> bool:
    """Whether two names are of one thing.

    exact: the same words. head: the same last word, what the others describe. soft: equal, one inside the other, or
    any word in common.

    >>> [same_thing("car", "red car", rule=rule) for rule in ("exact", "head", "soft")]
    [False, True, True]
    """
    a, b = claimed.casefold().split(), known.casefold().split()
    if not a or not b or a == b:
        return bool(a) and a == b
    if rule == "soft":
        left, right = " ".join(a), " ".join(b)
        return left in right or right in left or bool({*a} & {*b})
    return rule == "head" and a[-1] == b[-1]


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """How claims are judged: names (None: not compared), seconds to a key frame, and what several objects give."""

    names: NameRule | None = "head"
    within: float = 1.0
    mode: Literal["avg", "max"] = "avg"


def claim_score(claim: Claim, frames: Iterable[KeyFrame], rules: ClaimRules) -> float | None:
    """How well a claim fits the key frame nearest to it; None where none is near, or none of its objects is meant.

    Per object that is meant: the mean over its boxes of the best IoU with a claimed box.
    """
    near = [frame for frame in frames if abs(frame.time - claim.time) <= rules.within]
    if not near:
        return None
    frame = min(near, key=lambda f: abs(f.time - claim.time))
    scores = [
        math.fsum(max((box_iou(box, known) for box in claim.boxes), default=0.0) for known in boxes) / len(boxes)
        for name, boxes in frame.objects.items()
        if rules.names is None or same_thing(claim.name, name, rule=rules.names)
    ]
    if not scores:
        return None
    return max(scores) if rules.mode == "max" else math.fsum(scores) / len(scores)
