"""One action on a screen: its kind, place and text, plus a share for the form (GUI-R1).

Formula: 0.8 accuracy + 0.2 form. accuracy 1 if the kind is right and, as far as the answer has them, the point lies
in the box (or less than `radius` from the point) and F1 of the words of the text >= 0.5; else 0. form 1 if the whole
completion is `<think>..</think><answer>..</answer>` with one action that has every key it needs; else 0.
Bounds: 0 to 1.
Answer: `[{'action': 'click', 'point': [x, y], 'input_text': 'no input text'}]`, as JSON or a Python literal. `type`,
`select` and `open_app` need a text, `scroll` a direction.
Space: the model's. The dataset's answer is `{action: click, box: [x1, y1, x2, y2]}`, with `point: [x, y]` instead of
the box where only a point is known, and `input_text` where a text matters; the framework has converted its places.
Unit: `radius` is in the space's unit; 140 are pixels.
Source: GUI-R1, whose edges of a box do not count as inside. `official`: only the first of several actions is looked
at, the place counts for `click` alone, the text for `type`, `select` and `scroll`, and two single words match if one
contains the other.
Example: answer {action: click, box: [100, 100, 200, 150]}: a click at [150, 120] 1, at [300, 120] 0.2, `scroll` 0.2;
answer {action: type, input_text: shanghai shopping mall}: `shanghai mall` (F1 0.8) 1, `weather today` 0.2.
"""

from collections.abc import Sequence
from dataclasses import replace

from mmrl.data.sample import Sample
from mmrl.scoring.gui_actions import GuiAction, gold_action, is_at, parse_actions, word_f1, word_set_f1
from mmrl.scoring.literals import as_numbers, read_literal
from mmrl.scoring.parse import AnswerFormat, extract_prediction, has_format

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)
LEAST_F1 = 0.5
FORM_SHARE = 0.2
WITH_TEXT = ("type", "select", "open_app")
DIRECTIONS = ("up", "down", "left", "right")


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    radius: float = 140.0,
    prefilled_think: bool = False,
    official: bool = False,
) -> dict[str, float]:
    """`radius`: how far from an answer that is a point a click may be. `prefilled_think`: as of `format`."""
    gold = _as_released(gold_action(sample)) if official else gold_action(sample)
    text = extract_prediction(completion, answer=answer) or ""
    actions: Sequence[GuiAction] = parse_actions(text) or ()
    action = actions[0] if len(actions) == 1 or (official and actions) else None
    accuracy = float(action is not None and _is_right(action, gold, radius=radius, official=official))
    in_tags = has_format(completion, prefilled_think=prefilled_think)
    form = float(len(actions) == 1 and in_tags and _has_keys(read_literal(text), actions[0]))
    return {"reward": (1 - FORM_SHARE) * accuracy + FORM_SHARE * form, "accuracy": accuracy, "form": form}


def _as_released(gold: GuiAction) -> GuiAction:
    """Without what the released code does not look at."""
    if gold.kind != "click":
        gold = replace(gold, point=None, boxes=())
    return gold if gold.kind in ("type", "select", "scroll") else replace(gold, text="")


def _is_right(action: GuiAction, gold: GuiAction, *, radius: float, official: bool) -> bool:
    if action.kind != gold.kind or not is_at(action.point, gold, radius=radius, strict=True):
        return False
    compare = word_set_f1 if official else word_f1
    return not gold.text or compare(action.text, gold.text) >= LEAST_F1


def _has_keys(value: object, action: GuiAction) -> bool:
    """All three keys, a point of whole numbers, and the text or direction that the kind needs."""
    entry = value[0] if isinstance(value, list) else None
    if not isinstance(entry, dict) or not {"action", "point", "input_text"} <= entry.keys():
        return False
    point = as_numbers(entry["point"], count=2)
    if point is None or any(v != int(v) for v in point):
        return False
    if action.kind == "scroll":
        return action.text.casefold() in DIRECTIONS
    return action.kind not in WITH_TEXT or bool(action.text)
