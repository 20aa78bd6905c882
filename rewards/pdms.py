"""NAVSIM's driving score of a planned path, from the geometry of the scene (PDMS, EPDMS, ReCogDrive's weights).

Formula: `pdms`: NC DAC (5 EP + 5 TTC + 2 C) / 12; `recogdrive`: NC DAC (10 EP + 5 TTC + 2 C) / 17; `epdms`: NC DAC DDC
TLC (5 EP + 5 TTC + 2 LK + 2 HC + 2 EC) / 16, where a term that is 0 for the human driver counts as 1. NC at-fault
collisions (agent 0, static object 0.5), DAC all corners on drivable area, DDC driving in oncoming lanes, TLC red
lights, EP progress along the route / what is possible, TTC no collision within 0.9 s at constant velocity, LK within
0.5 m of the route, C and HC comfort, EC consistency with the plan before. The terms are logged under their names.
`two_stage`: times the mean score of the row's `follow_ups`, each weighing exp(-d^2 / 0.2), d metres from the plan's end
to where it starts; where all are too far away they weigh the same.
Bounds: 0 to 1.
Answer: as many waypoints as the answer has, at least 2: `[[x, y], ...]` (a third number, the heading, is not used).
Space: the car's frame at time 0, x ahead, y to the left; the framework converts nothing. The dataset's answer is the
path of the human driver; the scene stands in the columns of `mmrl.scoring.driving_rows`: `speed`, `drivable`, `route`,
`agents`, for `epdms` also `oncoming`, `intersections`, `red_lights`, for `two_stage` also `follow_ups`:
[{start: [x, y], score: 0.8}], the score of the plan made in each.
Unit: metres, seconds, m/s, radians.
Source: autonomousvision/navsim, docs and scorer. Here a plan is driven exactly, not by NAVSIM's controller, its states
are of the car's middle, and progress is compared with the column `progress_bound` or the human driver.
Example: terms NC 0.5, EP 0.9, C 0, others 1: 0.395833; EP 0.6 and others 1: 0.833333, with ReCogDrive's weights
0.764706. Two stages, 1 and follow-ups 0.8 at the plan's end and 0.4 half a metre off: 0.71092.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.driving_metrics import PdmForm
from mmrl.scoring.driving_rows import gold_waypoints, parse_waypoints, pdm_of
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {
    "constant": "the score is NAVSIM's own: a short careful plan is safe and comfortable in most scenes, up to 7/12 "
    "without any progress; compare with a constant plan before reading it as skill, or use `recogdrive` (7/17)",
}


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    form: PdmForm = "pdms",
    two_stage: bool = False,
) -> dict[str, float]:
    """`form`: which of the three scores. `two_stage`: NAVSIM v2's score over the scenes that may follow."""
    count = len(gold_waypoints(sample, least=2))
    plan = parse_waypoints(extract_prediction(completion, answer=answer) or "", count=count)
    found = pdm_of(plan, sample, form=form, two_stage=two_stage)
    return {"reward": found.pop("score"), **found}
