"""One action on a screen: kind, place and form, a point each (UI-R1).

Formula: action + place + form. action 1 if the kind is right; place 1 if it is and the point lies in the answer's
box, edges included, or the answer has no place; form 1 if the whole completion is
`<think>..</think><answer>..</answer>` with one readable action. `official`: the first kind and the first pair of whole
numbers in the answer count, [0, 0] where there is no pair; only clicks have a place; any text in the tags is the form.
Bounds: 0 to 3.
Answer: `[{'action': 'click', 'coordinate': [x, y]}]` (or `point`), as JSON or a Python literal.
Space: the model's. The dataset's answer is `{action: click, box: [x1, y1, x2, y2]}`, without box for kinds that have
no place; the framework has converted the box.
Unit: pixels or 0..N, as the space says.
Source: UI-R1 (click, open_app, scroll, navigate_back, input_text; texts are not compared). Its expressions know single
quotes alone, so JSON has no kind.
Example: answer {action: click, box: [100, 100, 200, 150]}: a click at [150, 120] 3, at [300, 120] 2, `scroll` in good
form 1. A click there and one at [0, 0] in one answer: 0 + 0 + 0 (official 3).
"""

import re

from mmrl.data.sample import Sample
from mmrl.scoring.gui_actions import GuiAction, gold_action, is_at, parse_actions
from mmrl.scoring.parse import AnswerFormat, extract_prediction, has_format, is_tagged

GEOMETRY = "box"
BOUNDS = (0.0, 3.0)

_KIND, _BARE_KIND = re.compile(r"'action':\s*'(\w+)'"), re.compile(r"'action':\s*(\w+)")
_PAIR = re.compile(r"\[(\d{1,9}),\s*(\d{1,9})\]")


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    radius: float = 140.0,
    prefilled_think: bool = False,
    official: bool = False,
) -> dict[str, float]:
    """`radius`: how far from an answer that is a point a click may be, in the space's unit."""
    gold = gold_action(sample)
    if official:
        return _as_released(completion, gold, radius=radius, prefilled_think=prefilled_think)
    actions = parse_actions(extract_prediction(completion, answer=answer) or "") or ()
    action = actions[0] if len(actions) == 1 else None
    same_kind = action is not None and action.kind == gold.kind
    at_place = action is not None and same_kind and is_at(action.point, gold, radius=radius)
    form = float(action is not None and has_format(completion, prefilled_think=prefilled_think))
    return _parts(same_kind, at_place, form)


def _as_released(completion: str, gold: GuiAction, *, radius: float, prefilled_think: bool) -> dict[str, float]:
    inside, closing, _ = completion.partition("<answer>")[2].partition("</answer>")
    text = inside if closing else ""
    kind, pair = _KIND.search(text) or _BARE_KIND.search(text), _PAIR.search(text)
    same_kind = kind is not None and kind[1].casefold() == gold.kind
    point = (float(pair[1]), float(pair[2])) if pair else (0.0, 0.0)
    at_place = same_kind and (gold.kind != "click" or is_at(point, gold, radius=radius))
    return _parts(same_kind, at_place, float(is_tagged("<think>" + completion if prefilled_think else completion)))


def _parts(same_kind: bool, at_place: bool, form: float) -> dict[str, float]:
    return {"reward": same_kind + at_place + form, "action": float(same_kind), "place": float(at_place), "form": form}
