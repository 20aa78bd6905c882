"""A list of actions on a screen against the list that does the task.

Formula: `prefix`: steps that are right before the first wrong one / steps of the longer list; `exact`: 1 if all steps
are right, else 0; `edit`: 1 - edit distance / steps of the longer list (a step inserted, left out or replaced costs
1). A step is right if its kind is and, as far as the answer has them, its point lies in the box (or less than
`radius` from the point) and F1 of the words of its text >= `least_f1`.
Bounds: 0 to 1.
Answer: `[{"action": "click", "point": [x, y]}, {"action": "type", "input_text": "cat"}]`, as JSON or a Python
literal.
Space: the model's. The dataset's answer is the same list with `box: [x1, y1, x2, y2]` in place of `point`; the
framework has converted its places.
Unit: `radius` is in the space's unit.
Source: this project's. `prefix` is the default because after a wrong step the screen is another one.
Example: answer click [0, 0, 10, 10], type `cat`, enter: all three 1; without `enter` 0.666667; only click and enter
0.333333 (edit 0.666667); enter, click, type 0.
"""

from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gui_actions import GuiAction, gold_actions, is_same_action, parse_actions
from mmrl.scoring.parse import AnswerFormat, extract_prediction

GEOMETRY = "box"
BOUNDS = (0.0, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    measure: Literal["prefix", "exact", "edit"] = "prefix",
    radius: float = 140.0,
    least_f1: float = 1.0,
) -> float:
    """`radius`: how far from a point of the answer a click may be. `least_f1`: 1 asks for the same words."""
    gold = gold_actions(sample)
    actions = parse_actions(extract_prediction(completion, answer=answer) or "") or ()
    right = [[is_same_action(a, g, radius=radius, least_f1=least_f1) for g in gold] for a in actions]
    longer = max(len(actions), len(gold))
    if measure == "edit":
        return 1 - _distance(right, steps=len(gold)) / longer
    prefix = _prefix(actions, gold, right)
    return prefix / longer if measure == "prefix" else float(prefix == longer)


def _prefix(actions: tuple[GuiAction, ...], gold: tuple[GuiAction, ...], right: list[list[bool]]) -> int:
    steps = min(len(actions), len(gold))
    return next((step for step in range(steps) if not right[step][step]), steps)


def _distance(right: list[list[bool]], *, steps: int) -> int:
    """Levenshtein distance of two lists; right[i][j]: whether action i is step j."""
    above = list(range(steps + 1))
    for number, row in enumerate(right, start=1):
        current = [number]
        for step, same in enumerate(row):
            current.append(min(above[step] + (not same), above[step + 1] + 1, current[step] + 1))
        above = current
    return above[-1]
