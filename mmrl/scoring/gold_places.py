"""The dataset's answer as lists of places, already in the model's space, or RewardError naming the sample. Pure.

Each function reads JSON and JSON text; see `mmrl.scoring.places` for the forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.listings import (
    Detection,
    Point,
    Span,
    Tube,
    parse_detections,
    parse_points,
    parse_spans,
    parse_tube,
    read_detections,
    read_moments,
    read_points,
    read_spans,
    read_tube,
)
from mmrl.scoring.overlap import Region, read_region
from mmrl.scoring.parse import extract_prediction, parse_json
from mmrl.scoring.thoughts import KeyFrame, read_key_frames

T = TypeVar("T")


def _read(sample: Sample, parse: Callable[[str], T | None], read: Callable[[Any], T | None]) -> T | None:
    answer = sample.answer
    return parse(extract_prediction(answer) or "") if isinstance(answer, str) else read(answer)


def gold_detections(sample: Sample) -> tuple[Detection, ...]:
    """Boxes with positive area, labelled or not; an empty list says that there is nothing to find."""
    found = _read(sample, parse_detections, read_detections)
    if found is None or any(x1 >= x2 or y1 >= y2 for x1, y1, x2, y2 in (d.box for d in found)):
        raise bad_answer(sample, wanted="a list of boxes, each with a positive extent")
    return found


def gold_points(sample: Sample) -> tuple[Point, ...]:
    """Points; an empty list says that there is nothing to find."""
    found = _read(sample, parse_points, read_points)
    if found is None:
        raise bad_answer(sample, wanted="a list of points")
    return found


def gold_spans(sample: Sample) -> tuple[Span, ...]:
    """Spans of positive length; an empty list says that it never happens."""
    found = _read(sample, parse_spans, read_spans)
    if found is None or any(end <= start for start, end in found):
        raise bad_answer(sample, wanted="a list of spans, each of positive length")
    return found


def gold_moments(sample: Sample) -> tuple[float, ...]:
    """One moment or more."""
    found = _read(sample, lambda text: read_moments(parse_json(text)[1]), read_moments)
    if not found:
        raise bad_answer(sample, wanted="a list of moments")
    return found


def gold_key_frames(sample: Sample) -> tuple[KeyFrame, ...]:
    """Key frames, at least one: a list of them, or what stands under `frames` beside an answer."""
    value = parse_json(sample.answer)[1] if isinstance(sample.answer, str) else sample.answer
    frames = read_key_frames(value.get("frames") if isinstance(value, dict) else value)
    if not frames:
        raise bad_answer(sample, wanted='a list of key frames, [{"time": 6, "objects": {"car": [[x1, y1, x2, y2]]}}]')
    return frames


def gold_tube(sample: Sample, *, with_span: bool = False, may_lack_boxes: bool = False) -> Tube:
    """Boxes by time, at least one, each with positive area; with_span: and the span they fill.

    may_lack_boxes: there may be none of them.
    """
    found = _read(sample, parse_tube, read_tube)
    if (
        found is None
        or not (found.boxes or may_lack_boxes)
        or any(b[0] >= b[2] or b[1] >= b[3] for b in found.boxes.values())
    ):
        raise bad_answer(sample, wanted="boxes by time, {'boxes': {'2.5': [x1, y1, x2, y2]}}, each of positive extent")
    if with_span and (found.span is None or found.span[0] >= found.span[1]):
        raise bad_answer(sample, wanted="boxes by time with a 'time' of positive length")
    return found


def gold_regions(sample: Sample) -> tuple[Region, ...]:
    """Boxes, polygons and masks, at least one: a single region or a list of them."""
    answer = sample.answer
    value = parse_json(extract_prediction(answer) or "")[1] if isinstance(answer, str) else answer
    one = read_region(value)
    found = (one,) if one is not None else tuple(map(read_region, value)) if isinstance(value, list | tuple) else ()
    regions = tuple(region for region in found if region is not None)
    if not found or len(regions) != len(found):
        raise bad_answer(sample, wanted="a box, a polygon of three corners or more, a mask, or a list of them")
    return regions
