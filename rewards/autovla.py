"""NAVSIM's score of a planned path, less a penalty for long reasoning (AutoVLA).

Formula: 10 (PDMS - 0.3 sigmoid(0.002 (n - 400)) [reasons]). n: characters outside the plan and its tags, and it
reasons if there are any; `official`: n counts the whole completion, and it reasons if it says "complex scenario".
Bounds: -3 to 10.
Answer: `<think>..</think>` and then as many waypoints as the answer has, `[[x, y], ...]`; no readable plan is PDMS 0.
Space: the car's frame at time 0, x ahead, y to the left; columns as of `pdms`.
Unit: metres; characters.
Source: AutoVLA, which writes plans in action tokens of its own. Its phrase can be left out while reasoning at any
length, hence the default.
Example: PDMS 0.9 and a thought of 400 characters 7.5; of 1400, 6.3576; without a thought 9.
"""

import re

from mmrl.data.sample import Sample
from mmrl.scoring.driving_metrics import autovla_reward
from mmrl.scoring.driving_rows import gold_waypoints, parse_waypoints, pdm_of
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (-3.0, 10.0)
PHRASE = "complex scenario"
_TAGS = re.compile(r"</?(?:think|answer)>")
KNOWN_HACKS = {"constant": "as of `pdms`, on which it stands"}


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    official: bool = False,
) -> dict[str, float]:
    """`official`: the source's count of characters, and its phrase."""
    count = len(gold_waypoints(sample, least=2))
    text = extract_prediction(completion, answer=answer) or ""
    plan = parse_waypoints(text, count=count)
    found = pdm_of(plan, sample, form="pdms")
    pdms = found.pop("score")
    characters = len(completion) if official else len(_TAGS.sub("", completion).strip()) - len(text)
    reasons = PHRASE in completion if official else characters > 0
    reward = autovla_reward(pdms, characters=characters, reasons=reasons)
    return {"reward": reward, "pdms": pdms, **found}
