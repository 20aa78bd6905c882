"""One action on a screen: kind, place and form, a point each (UI-R1).

Formula: action + place + form. action 1 if the kind is right; place 1 if it is and the point lies in the answer's
box, edges included, or the answer has no place; form 1 if the whole completion is
`<think>..</think><answer>..</answer>` with one readable action.
Bounds: 0 to 3.
Answer: `[{'action': 'click', 'coordinate': [x, y]}]` (or `point`), as JSON or a Python literal.
Space: the model's. The dataset's answer is `{action: click, box: [x1, y1, x2, y2]}`, without box for kinds that have
no place; the framework has converted the box.
Unit: pixels or 0..N, as the space says.
Source: UI-R1 (click, open_app, scroll, navigate_back, input_text; texts are not compared).
Example: answer {action: click, box: [100, 100, 200, 150]}: a click at [150, 120] 3, at [300, 120] 2, `scroll` in good
form 1.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gui_actions import gold_action, is_at, parse_actions
from mmrl.scoring.parse import AnswerFormat, extract_prediction, has_format

GEOMETRY = "box"
BOUNDS = (0.0, 3.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    radius: float = 140.0,
    prefilled_think: bool = False,
) -> dict[str, float]:
    """`radius`: how far from an answer that is a point a click may be, in the space's unit."""
    gold = gold_action(sample)
    actions = parse_actions(extract_prediction(completion, answer=answer) or "") or ()
    action = actions[0] if len(actions) == 1 else None
    same_kind = action is not None and action.kind == gold.kind
    at_place = action is not None and same_kind and is_at(action.point, gold, radius=radius)
    form = float(action is not None and has_format(completion, prefilled_think=prefilled_think))
    return {"reward": same_kind + at_place + form, "action": float(same_kind), "place": float(at_place), "form": form}
