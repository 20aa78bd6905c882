"""CaRL's reward of a planned path: route completed, less where the driving is bad, and a penalty for crashes.

Formula: sum over ticks of 0.1 s of (RC_t - RC_(t-1)) prod_i p_i - [collision or red light]. RC: percent of `route`
from the car on. Factors p: outside the route's lanes (off the drivable area or in oncoming lanes) 0; speeding
max(0, 1 - (v - limit) / 2.23); TTC violated 0.5; 1 - 0.5 n / 6 for n broken limits of comfort; more than 0.5 m off the
route for above `patience` ticks, crossings left out, 0.5. TTC and each limit count for `sticky` ticks. A plan ends with
a collision of its own fault, a red light, 95 % of the car off the road, or the route. One that ends by collision or red
light is worth -1: what a crash loses lies beyond a plan's end. `official`: the sum, with the progress before it.
`minimum_speed` and `form: sum` as in `carl_episode`; the traffic are the agents that are not static.
Bounds: -1 to 100; -1 for what is no plan, or moves by more than the car's length in a tick.
Answer: as many waypoints as the answer has, a second or more: `[[x, y], ...]`.
Space: the car's frame at time 0, x ahead, y to the left; the framework converts nothing. The dataset's answer is the
path of the human driver; the scene stands in the columns of `mmrl.scoring.driving_rows`: `speed`, `speed_limit`,
`drivable`, `route`, `agents`, `oncoming`, `intersections`, `red_lights`.
Unit: metres, seconds, m/s, radians.
Source: autonomousvision/CaRL, simple_reward.py and rl_config.py (10 Hz). Here comfort is measured over the whole plan,
as PDMS does, and collisions count that are the car's fault. Recorded episodes, and jumps of controls: `carl_episode`.
Example: 10 m/s for 4 s along a straight route of 100 m: 40; at a limit of 9 m/s 22.06; into a standing car -1.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.carl import PATIENCE_TICKS, STICKY_TICKS, carl_steps, plan_ticks
from mmrl.scoring.driving_metrics import CARL_HINTS, CarlForm, CarlRules, carl_reward
from mmrl.scoring.driving_rows import human_drive, parse_waypoints, speed_limit
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (-1.0, 100.0)
CRASH = -1.0


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    sticky: int = STICKY_TICKS,
    patience: int = PATIENCE_TICKS,
    official: bool = False,
    form: CarlForm = "product",
    minimum_speed: bool = False,
) -> dict[str, float]:
    """`sticky`: ticks that a violation counts for. `patience`: ticks off the route that cost nothing."""
    human, scene = human_drive(sample, extended=True)
    limit = speed_limit(sample)
    plan = parse_waypoints(extract_prediction(completion, answer=answer) or "", count=len(human))
    if plan is None:
        return {"reward": CRASH}
    steps = list(carl_steps(plan_ticks(plan, scene, speed_limit=limit), sticky=sticky, patience=patience))
    rules = CarlRules(form, minimum_speed)
    total, last = sum(carl_reward(step, rules, steps=len(steps)) for step in steps), steps[-1]
    crashes = last.ended_by in CARL_HINTS
    return {
        "reward": CRASH if crashes and not official else total,
        "completion": last.route_after,
        "ticks": float(len(steps)),
        "crashes": float(crashes),
        "uncomfortable": float(last.uncomfortable),
        "ttc_violated": float(last.ttc_violated),
    }
