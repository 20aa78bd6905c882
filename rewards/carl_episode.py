"""CaRL's reward of a recorded driving episode: route completed, less where the driving was bad, and a crash's penalty.

Formula: sum over steps of (RC_t - RC_(t-1)) prod_i p_i - [collision or red light]. RC: completion of the route in
percent. Factors p: outside the route's lanes 0; speeding max(0, 1 - (v - limit) / 2.23); TTC violated 0.5; 1 - 0.5 n /
6 for n broken limits of comfort; more than 0.5 m off the lane's centre for above `patience` steps 0.5. A violation of
TTC and of each limit counts in its step and the `sticky` - 1 after it. The counter of steps off the centre goes up in
each of them and down in others, and neither moves nor counts in junctions. The first step with `ended_by` is the last.
`minimum_speed` also multiplies by the speed as a share of the traffic's, at most 1; `action_jump` by 0.5 where a
control moved by more than 0.25. `form: sum`: (5 dRC + 5 TTC + 4 speed + 2 comfort) / 16 in place of the first four
factors, each of the last three 100 / 2000 where nothing is violated (100 / steps in longer episodes), which pays
standing still.
Bounds: -1 to 100. A completion that falls is an error.
Answer: any text; it is not read. The column `steps` is a list of {route_completion, speed, speed_limit, outside_lanes,
ttc_violated, lane_offset, in_junction, dynamics, ended_by, traffic_speed, controls}, one a step, after it; only the
first is required, what is missing is as in a clean step. traffic_speed: mean of the other vehicles, none where it is
missing. controls: any of steer, throttle, brake. dynamics: any of along, across, jerk, along_jerk, yaw_rate,
yaw_acceleration. ended_by: collision, red_light, stop_sign, blocked, route_deviation, timeout, off_road,
route_finished. `route_start`: the completion before the first step, 0 where the row has none.
Space: none.
Unit: percent, m/s, metres, m/s2, m/s3, rad/s, rad/s2; steps at CaRL's 10 Hz, else set `sticky` and `patience`.
Source: autonomousvision/CaRL, simple_reward.py and rl_config.py: 500 and 30 ticks, 0.5 m, nuPlan's limits of comfort.
The three options are off there, too; before a first step there are no controls here.
Example: one step from 10 to 10.5 %: 0.5; 1 m/s above the limit 0.275785; TTC violated and three limits broken 0.1875;
outside lanes 0; collision or red light -0.5; stop sign 0.5; half as fast as the traffic with `minimum_speed` 0.25; by
`form: sum` 0.190625, and 0.034375 for standing still.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.carl import PATIENCE_TICKS, STICKY_TICKS, carl_steps
from mmrl.scoring.driving_metrics import CARL_HINTS, CarlForm, CarlRules, carl_reward
from mmrl.scoring.episodes import carl_ticks, route_start

BOUNDS = (-1.0, 100.0)
MEASURE = True


def score(
    completion: str,
    sample: Sample,
    *,
    sticky: int = STICKY_TICKS,
    patience: int = PATIENCE_TICKS,
    form: CarlForm = "product",
    minimum_speed: bool = False,
    action_jump: bool = False,
) -> dict[str, float]:
    """`sticky`: steps that a violation counts for. `patience`: steps off the lane's centre that cost nothing."""
    rules = CarlRules(form, minimum_speed, action_jump)
    steps = list(carl_steps(carl_ticks(sample), start=route_start(sample), sticky=sticky, patience=patience))
    rewards, last = [carl_reward(step, rules, steps=len(steps)) for step in steps], steps[-1]
    return {
        "reward": sum(rewards),
        "least": min(rewards),
        "last": rewards[-1],
        "steps": float(len(steps)),
        "completion": last.route_after,
        "crashes": float(last.ended_by in CARL_HINTS),
    }
