"""A planned path and the two decisions behind it (after Drive-R1).

Formula: w_t exp(-ADE / scale) + w_m ([speed right] + [path right]) / 2 + w_f [form], (w_t, w_m, w_f) = (1, 0.5, 0.5).
Bounds: 0 to 2 with these weights; 0 upwards with others.
Answer: `<think>..</think><answer>{"waypoints": [[x, y], ...], "speed": "keep", "path": "straight"}</answer>`; speed is
one of keep, accelerate, decelerate, stop, and path of straight, left_turn, right_turn. As many waypoints as the answer
has.
Space: the car's frame at time 0, x ahead, y to the left; the framework converts nothing. The dataset's answer has the
same three keys.
Unit: metres.
Source: Drive-R1 states that its rewards are of trajectories and meta actions; its formulas are unpublished, these are
this project's.
Example: ADE 0 with both decisions and the form 2; ADE 0.5, 1.606531; ADE 2 with one decision right 0.885335.
"""

from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.driving_metrics import plan_closeness
from mmrl.scoring.driving_rows import gold_waypoints, read_waypoints
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.literals import read_literal
from mmrl.scoring.meta_actions import path_words, speed_words
from mmrl.scoring.parse import AnswerFormat, extract_prediction, has_format

BOUNDS = (0.0, None)


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    path_weight: float = 1.0,
    decision_weight: float = 0.5,
    form_weight: float = 0.5,
    scale: float = 1.0,
    prefilled_think: bool = False,
) -> dict[str, float]:
    """`*_weight`: of the three terms. `scale`: metres at which the first term is 1 / e."""
    gold = gold_waypoints(sample)
    wanted = _decisions(sample.answer)
    if None in wanted:
        raise bad_answer(sample, wanted="a mapping of waypoints, speed and path")
    written = read_literal(extract_prediction(completion, answer=answer) or "")
    written = written if isinstance(written, dict) else {}
    plan = read_waypoints(written)
    is_plan = plan is not None and len(plan) == len(gold)
    closeness = plan_closeness(plan or (), gold, scale=scale) if is_plan else 0.0
    decisions = sum(own == right for own, right in zip(_decisions(written), wanted, strict=True)) / 2
    complete = is_plan and None not in _decisions(written)
    form = float(complete and has_format(completion, prefilled_think=prefilled_think))
    reward = path_weight * closeness + decision_weight * decisions + form_weight * form
    return {"reward": reward, "closeness": closeness, "decisions": decisions, "form": form}


def _decisions(value: Any) -> tuple[str | None, str | None]:
    """Speed and path, each the one word that is said; None where none is or several are."""
    if not isinstance(value, dict):
        return None, None
    speed, path = speed_words(str(value.get("speed", ""))), path_words(str(value.get("path", "")))
    return speed.pop() if len(speed) == 1 else None, path.pop() if len(path) == 1 else None
