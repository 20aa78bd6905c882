"""From a completion or an answer to lists of places: boxes with labels, points, spans, tubes. Pure.

`parse_*` read a completion's text, `read_*` a value that is already JSON (an answer of the dataset). Both return None
for what they cannot read without guessing; an empty list is a list. The forms are those of `mmrl.scoring.places`.

>>> parse_detections('[{"bbox_2d": [1, 2, 3, 4], "label": "dog"}]')
(Detection(box=(1.0, 2.0, 3.0, 4.0), label='dog', confidence=None),)
>>> parse_spans("[[1, 2.5], [4, 9]]"), parse_points('{"point_2d": [3, 4]}'), parse_detections("two dogs")
(((1.0, 2.5), (4.0, 9.0)), ((3.0, 4.0),), None)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from mmrl.scoring.geometry import Box
from mmrl.scoring.literals import as_number
from mmrl.scoring.parse import parse_json, parse_span, parse_values, ranges_in
from mmrl.scoring.places import as_moment
from mmrl.scoring.reading import reports_value

Point = tuple[float, float]
Span = tuple[float, float]
T = TypeVar("T")

_BOX_KEYS = ("bbox_2d", "bbox", "box", "boxes", "Position")
_LABEL_KEYS = ("label", "name", "class", "category")
_CONFIDENCE_KEYS = ("confidence", "Confidence", "score")
_POINT_KEYS = ("point_2d", "point", "points", "coordinate")
_TIME_KEYS = ("time", "times", "span", "spans")
_NOTHING = ("none", "[]", "no objects", "no object")
_LINES = re.compile(r"[;\n]+")
_MOMENT = re.compile(r"\d+(?:\.\d+)?")
_MOMENT_WORDS = re.compile(r"\d+(?:\.\d+)?|\b(?:at|and)\b|\b(?:s|secs?|seconds?)\b|(?<=\d)s\b|[\s,;.]")


@dataclass(frozen=True, slots=True)
class Detection:
    """A box, what is said to be in it, and how sure its writer is."""

    box: Box
    label: str | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Tube:
    """Boxes by time, in the order of time, and the span they are said to fill (None: not said)."""

    boxes: Mapping[float, Box]
    span: Span | None = None


def parse_detections(text: str) -> tuple[Detection, ...] | None:
    """The boxes of a text: JSON, or one box as `parse_values` reads it; `None` and `[]` are no boxes."""
    if text.strip(" .").casefold() in _NOTHING:
        return ()
    found, value = _json(text)
    if found:
        return read_detections(value)
    box = parse_values(text, count=4)
    return None if box is None else (Detection((box[0], box[1], box[2], box[3])),)


def read_detections(value: Any) -> tuple[Detection, ...] | None:
    """One box, a list of boxes, or dicts with a box under bbox_2d, bbox, box, boxes or Position."""
    numbers = _numbers(value, 4)
    if numbers is not None:
        return (Detection((numbers[0], numbers[1], numbers[2], numbers[3])),)
    if isinstance(value, Mapping):
        return _labelled(value)
    return _all(value, read_detections)


def _labelled(value: Mapping[str, Any]) -> tuple[Detection, ...] | None:
    inner = _under(value, _BOX_KEYS)
    found = None if inner is None else read_detections(inner)
    label, confidence = _under(value, _LABEL_KEYS), _under(value, _CONFIDENCE_KEYS)
    sure = as_number(confidence)
    if found is None or (confidence is not None and sure is None) or not isinstance(label, str | None):
        return None
    return tuple(Detection(d.box, label or d.label, d.confidence if sure is None else sure) for d in found)


def parse_points(text: str) -> tuple[Point, ...] | None:
    """The points of a text: JSON, or one point as `parse_values` reads it; `None` and `[]` are no points."""
    if text.strip(" .").casefold() in _NOTHING:
        return ()
    found, value = _json(text)
    if found:
        return read_points(value)
    point = parse_values(text, count=2)
    return None if point is None else ((point[0], point[1]),)


def read_points(value: Any) -> tuple[Point, ...] | None:
    """One point, a list of points, or dicts with points under point_2d, point, points or coordinate."""
    numbers = _numbers(value, 2)
    if numbers is not None:
        return ((numbers[0], numbers[1]),)
    if isinstance(value, Mapping):
        inner = _under(value, _POINT_KEYS)
        return None if inner is None else read_points(inner)
    return _all(value, read_points)


def parse_spans(text: str) -> tuple[Span, ...] | None:
    """The spans of a text: JSON, `[(5.2, 10.4), (12, 15)]`, or one span a line (or between `;`) as `parse_span`."""
    if text.strip(" .").casefold() in _NOTHING:
        return ()
    found, value = parse_json(text.replace("(", "[").replace(")", "]"))
    if found:
        return read_spans(value)
    spans = [parse_span(line) for line in _LINES.split(text) if line.strip()]
    return tuple(span for span in spans if span is not None) if spans and None not in spans else None


def read_spans(value: Any) -> tuple[Span, ...] | None:
    """One span, a list of spans, or dicts with spans under time, times, span or spans."""
    numbers = _numbers(value, 2)
    if numbers is not None:
        return ((numbers[0], numbers[1]),)
    if isinstance(value, Mapping):
        inner = _under(value, _TIME_KEYS)
        return None if inner is None else read_spans(inner)
    return _all(value, read_spans)


def glue_text(completion: str) -> str:
    """What the one `<glue>..</glue>` after the thought holds; empty where there is none, or another.

    >>> glue_text("<think><glue>a</glue></think> <answer>B</answer> <glue>[(1, 2)]</glue>")
    '[(1, 2)]'
    """
    _, _, opened = completion.rpartition("</think>")[2].partition("<glue>")
    inside, closing, rest = opened.partition("</glue>")
    has_another = "</glue>" in rest.partition("<glue>")[2]
    return inside if closing and not has_another else ""


@reports_value
def parse_span_among(text: str, *, take: Literal["first", "last"]) -> Span | None:
    """One span of a text that may have several: those of `parse_spans`, else the ranges that its sentences hold.

    >>> parse_span_among("From 8 to 12, and again 10 to 20 seconds", take="first")
    (8.0, 12.0)
    >>> parse_span_among("[[1, 2], [3, 4]]", take="last"), parse_span_among("2 dogs and 3 cats", take="first")
    ((3.0, 4.0), None)
    """
    spans = parse_spans(text) or ranges_in(text)
    return spans[0 if take == "first" else -1] if spans else None


def parse_moments(text: str) -> tuple[float, ...] | None:
    """The moments of a text: JSON, or bare ones with their unit or without: `5, 9.5`, `5s and 9.5 s`."""
    found, value = parse_json(text)
    if found:
        return read_moments(value)
    if _MOMENT_WORDS.sub("", text):
        return None
    return tuple(float(moment) for moment in _MOMENT.findall(text)) or None


def read_moments(value: Any) -> tuple[float, ...] | None:
    """One moment, or a list of moments, bare or under time or times."""
    if isinstance(value, Mapping):
        value = _under(value, _TIME_KEYS)
    if as_number(value) is not None:
        value = [value]
    moments = [as_number(v) for v in value] if isinstance(value, list | tuple) else [None]
    return tuple(m for m in moments if m is not None) if None not in moments else None


def parse_tube(text: str) -> Tube | None:
    """The tube of a text: `{"time": [2, 9], "boxes": {"2": [x1, y1, x2, y2], ...}}`, with or without `time`."""
    found, value = _json(text)
    return read_tube(value) if found else None


def read_tube(value: Any) -> Tube | None:
    """A tube from JSON. None too where two keys are one time, or a key is no time."""
    boxes = value.get("boxes") if isinstance(value, Mapping) else None
    if not isinstance(boxes, Mapping):
        return None
    read: dict[float, Box] = {}
    for key, entry in boxes.items():
        moment, box = as_moment(key), _numbers(entry, 4)
        if moment is None or box is None or moment in read:
            return None
        read[moment] = (box[0], box[1], box[2], box[3])
    if "time" not in value:
        return Tube(dict(sorted(read.items())))
    span = _numbers(value["time"], 2)
    return None if span is None else Tube(dict(sorted(read.items())), (span[0], span[1]))


def _json(text: str) -> tuple[bool, Any]:
    """JSON, or a Python literal with nothing but single quotes, as some systems ask for it."""
    found, value = parse_json(text)
    return (found, value) if found or '"' in text else parse_json(text.replace("'", '"'))


def _under(value: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """What stands under the one of these keys that there is; None where there is none, or more than one."""
    found = [value[key] for key in keys if key in value]
    return found[0] if len(found) == 1 else None


def _all(value: Any, read: Callable[[Any], tuple[T, ...] | None]) -> tuple[T, ...] | None:
    """The items of a list of places and of dicts with places; lists of lists of places are read as neither."""
    if not isinstance(value, list | tuple):
        return None
    parts: list[T] = []
    for entry in value:
        found = read(entry) if isinstance(entry, Mapping) or _flat(entry) else None
        if found is None:
            return None
        parts += found
    return tuple(parts)


def _flat(entry: Any) -> bool:
    return isinstance(entry, list | tuple) and bool(entry) and all(as_number(v) is not None for v in entry)


def _numbers(value: Any, count: int) -> tuple[float, ...] | None:
    if not isinstance(value, list | tuple) or len(value) != count:
        return None
    numbers = [as_number(v) for v in value]
    return tuple(n for n in numbers if n is not None) if None not in numbers else None
