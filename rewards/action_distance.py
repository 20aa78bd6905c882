"""A robot's action written as numbers, against the demonstrated action.

Formula: exp(-d / scale), d the mean over dimensions of |a - a*| (`l1`), (a - a*)^2 (`mse`) or the Huber loss with
delta 1 (`huber`); `official`: -d, not below -worst, and -worst for an unreadable action. The value `distance`, d of a
readable action, is logged; with `tolerance` also `within`: 1 if no number of the action is further off, else 0.
Bounds: at most 1; without `official` 0 to 1.
Answer: as many numbers as the answer has: `[0.01, -0.02, ..]`, or without brackets, separated by blanks or commas.
Space: none; both actions are in the robot's units.
Unit: of the robot (metres, radians, gripper 0..1); `scale` is in that unit (its square for `mse`).
Source: VLA-RFT's action reward. Its picture distance is the reward `vla_rft`.
Example: answer [0.1, 0.2]: the same 1; `0.2 0.2` 0.606531 (official -0.05); nothing 0 (official -1).
"""

import math
from typing import Literal

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.literals import as_numbers, read_literal
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.robot_output import action_distance

BOUNDS = (None, 1.0)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    measure: Literal["l1", "mse", "huber"] = "l1",
    scale: float = 0.1,
    official: bool = False,
    worst: float = 1.0,
    tolerance: float | None = None,
) -> dict[str, float]:
    """`scale`: distance at which the score is 1 / e. `worst`: with `official`, what an unreadable action costs."""
    gold = as_numbers(sample.answer)
    if not gold:
        raise bad_answer(sample, wanted="an action, a list of numbers")
    text = extract_prediction(completion, answer=answer) or ""
    action = as_numbers(read_literal(text if "," in text or "[" in text else ",".join(text.split())))
    if action is None or len(action) != len(gold):
        return {"reward": -worst if official else 0.0}
    distance = action_distance(action, gold, kind=measure)
    found = {"reward": max(-worst, -distance) if official else math.exp(-distance / scale), "distance": distance}
    if tolerance is None:
        return found
    return {**found, "within": float(max(abs(a - b) for a, b in zip(action, gold, strict=True)) <= tolerance)}
