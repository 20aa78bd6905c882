"""Actions on a screen: how a model writes them, and when one is the action asked for. Pure.

An action is a mapping. Of the model: `action`, and what the action needs of `point` (`coordinate`, `point_2d`) and
`input_text` (`text`, `value`). Of the dataset: `action`, and where they matter `box` (or `bbox`, `bbox_2d`; several
boxes: any of them) or `point`, and `input_text`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.clicks import boxes_in, in_box
from mmrl.scoring.geometry import Box
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.listings import Point
from mmrl.scoring.literals import as_numbers, read_literal

MOST_ACTIONS = 200
_POINT_KEYS = ("point", "coordinate", "point_2d")
_TEXT_KEYS = ("input_text", "text", "value")
_BOX_KEYS = ("box", "bbox", "bbox_2d")
_NO_TEXT = ("", "no input text")


@dataclass(frozen=True, slots=True)
class GuiAction:
    """One action. kind: its name in small letters, blanks and hyphens as `_`. boxes: only of a dataset's action.

    text: what is typed, selected or opened, or the direction of a scroll; empty where there is none.
    """

    kind: str
    point: Point | None = None
    text: str = ""
    boxes: tuple[Box, ...] = ()


def read_action(value: Any) -> GuiAction | None:
    """The action that a mapping says; None for another value, no name, or a place that is none.

    >>> read_action({"action": "Press Back"}), read_action({"point": [1, 2]})
    (GuiAction(kind='press_back', point=None, text='', boxes=()), None)
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("action"), str):
        return None
    kind = re.sub(r"[\s-]+", "_", value["action"].strip().casefold())
    place, shape = _entry(value, _POINT_KEYS), _entry(value, _BOX_KEYS)
    numbers = as_numbers(place, count=2)
    boxes = boxes_in(shape)
    if not kind or (place is not None and numbers is None) or (shape is not None and not boxes):
        return None
    text = _entry(value, _TEXT_KEYS)
    words = text.strip() if isinstance(text, str) else "" if text is None else str(text)
    return GuiAction(
        kind,
        point=(numbers[0], numbers[1]) if numbers else None,
        text="" if words.casefold() in _NO_TEXT else words,
        boxes=boxes,
    )


def _entry(value: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((value[key] for key in keys if key in value), None)


def parse_actions(text: str) -> tuple[GuiAction, ...] | None:
    """The actions a text lists, as JSON or as a Python literal; one mapping alone is a list of one.

    None for anything else, for one unreadable action among them and for more than MOST_ACTIONS.

    >>> parse_actions("[{'action': 'click', 'point': [3, 4], 'input_text': 'no input text'}]")
    (GuiAction(kind='click', point=(3.0, 4.0), text='', boxes=()),)
    """
    value = read_literal(text)
    listed = [value] if isinstance(value, dict) else value
    if not isinstance(listed, list | tuple) or not 0 < len(listed) <= MOST_ACTIONS:
        return None
    actions = tuple(read_action(v) for v in listed)
    return None if None in actions else actions  # pyright: ignore[reportReturnType]


def gold_action(sample: Sample) -> GuiAction:
    """The answer, a mapping or its text, as one action; RewardError, naming the sample, for anything else."""
    action = read_action(_value(sample))
    if action is None:
        raise bad_answer(sample, wanted="an action such as {action: click, box: [x1, y1, x2, y2]}")
    return _checked(action, sample)


def gold_actions(sample: Sample) -> tuple[GuiAction, ...]:
    """The answer as a list of actions, one or more; RewardError, naming the sample, for anything else."""
    value = _value(sample)
    listed = value if isinstance(value, list | tuple) else [value]
    actions = [read_action(v) for v in listed]
    if not actions or None in actions:
        raise bad_answer(sample, wanted="a list of actions such as {action: click, box: [x1, y1, x2, y2]}")
    return tuple(_checked(action, sample) for action in actions if action is not None)


def _value(sample: Sample) -> Any:
    return read_literal(sample.answer) if isinstance(sample.answer, str) else sample.answer


def _checked(action: GuiAction, sample: Sample) -> GuiAction:
    if action.kind in ("click", "tap", "long_press") and action.point is None and not action.boxes:
        raise bad_answer(sample, wanted=f"complete: a {action.kind} has a `box` or a `point`")
    if any(x1 >= x2 or y1 >= y2 for x1, y1, x2, y2 in action.boxes):
        raise bad_answer(sample, wanted="an action whose box has a positive extent")
    return action


def is_at(point: Point | None, gold: GuiAction, *, radius: float, strict: bool = False) -> bool:
    """Whether a point is where the action must be done: in one of its boxes, or less than `radius` from its point.

    True where the action has no place. strict: a box's edges do not belong to it.
    """
    if not gold.boxes and gold.point is None:
        return True
    if point is None:
        return False
    if gold.boxes:
        return any(in_box(point, box, strict=strict) for box in gold.boxes)
    assert gold.point is not None
    return math.dist(point, gold.point) < radius


def is_same_action(action: GuiAction, gold: GuiAction, *, radius: float, least_f1: float) -> bool:
    """Same kind, at the right place, with the right text (words F1 >= least_f1), as far as `gold` has them."""
    if action.kind != gold.kind or not is_at(action.point, gold, radius=radius):
        return False
    return not gold.text or word_f1(action.text, gold.text) >= least_f1


def word_f1(text: str, gold: str) -> float:
    """F1 of the words, case ignored, each counted as often as it occurs; 0 where either has none.

    >>> round(word_f1("Shanghai mall", "shanghai shopping mall"), 6), round(word_f1("mall mall", "shopping mall"), 6)
    (0.8, 0.5)
    """
    words, gold_words = Counter(text.casefold().split()), Counter(gold.casefold().split())
    common = (words & gold_words).total()
    return 2 * common / (words.total() + gold_words.total()) if common else 0.0


def word_set_f1(text: str, gold: str) -> float:
    """GUI-R1's F1: over sets of words; two single words match in full if one contains the other."""
    words, gold_words = set(text.casefold().split()), set(gold.casefold().split())
    if len(words) == len(gold_words) == 1:
        word, gold_word = *words, *gold_words
        if word in gold_word or gold_word in word:
            return 1.0
    common = len(words & gold_words)
    return 2 * common / (len(words) + len(gold_words)) if common else 0.0
