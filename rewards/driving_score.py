"""The CARLA leaderboard's driving score of recorded routes: completion, times a factor for each infraction.

Formula: mean over routes of completion prod_j p_j^n_j, p: pedestrian 0.5, vehicle 0.6, static 0.65, red_light 0.7,
stop_sign 0.8, n how often it happened.
Bounds: 0 to 100.
Answer: any text; it is not read. The column `routes` is a list of {completion, infractions}: percent, and
{name: count}, nothing where it is left out.
Space: none.
Unit: percent.
Source: CARLA leaderboard; Bench2Drive scores its short routes in the same way.
Example: a clean route 100; with one vehicle hit 60; 80 % with two red lights 39.2.
"""

from collections.abc import Mapping

from mmrl.data.sample import Sample
from mmrl.scoring.driving_metrics import INFRACTIONS, driving_score
from mmrl.scoring.episodes import Step, read_steps

BOUNDS = (0.0, 100.0)
MEASURE = True


def score(completion: str, sample: Sample) -> dict[str, float]:
    routes = [_route(step) for step in read_steps(sample, "routes", keys=("completion", "infractions"))]
    clean = [done for done, infractions in routes if done == 100 and not any(infractions.values())]
    return {"reward": driving_score(routes), "clean": len(clean) / len(routes)}


def _route(step: Step) -> tuple[float, Mapping[str, int]]:
    done = step.number("completion", wanted="a percentage of 0 to 100")
    counts = step.values.get("infractions") or {}
    known = isinstance(counts, Mapping) and set(counts) <= set(INFRACTIONS)
    if not known or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts.values()):
        raise step.bad("infractions", wanted=f"counts of {', '.join(INFRACTIONS)}")
    if not 0 <= done <= 100:
        raise step.bad("completion", wanted="a percentage of 0 to 100")
    return done, counts
