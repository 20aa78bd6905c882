"""How far recorded robot steps are through the stages of a task (DrS).

Formula: per step (3 k + tanh(f)) / (3 N) - 2. k: stages reached, one more at success; N: stages with success; f: what
the discriminator of stage k says of the step, 0 at success and where the step has none. The mean over the steps.
Bounds: -7/3 to -1. Any step of a stage is worth more than every step of the stage before; success is -1.
Answer: any text; it is not read. The column `steps` is a list of {reached, value, success}: `reached` the stage
indicators [true, false, ..], as many in each step, all but success; `value` f; success false where it is left out.
Space: none.
Source: DrS (tongzhoumu/DrS). Its discriminators are not trained here: the row brings what yours say.
Example: two indicators (N = 3): none reached, f = -5 -2.111101, 0 -2, 5 -1.888899; both reached -1.333333; success -1.
"""

import math

from mmrl.data.sample import Sample
from mmrl.reward_models.targets import drs_reward
from mmrl.scoring.episodes import Step, read_steps

BOUNDS = (-7 / 3, -1.0)
MEASURE = True
_KEYS = ("reached", "value", "success")


def score(completion: str, sample: Sample) -> dict[str, float]:
    steps = read_steps(sample, "steps", keys=_KEYS)
    count = len(_reached(steps[0]))
    rewards = [_reward(step, count) for step in steps]
    mean = math.fsum(rewards) / len(rewards)
    return {"reward": mean, "last": rewards[-1], "most": max(rewards), "success": float(steps[-1].flag("success"))}


def _reward(step: Step, count: int) -> float:
    reached, success = _reached(step, count), step.flag("success")
    value = 0.0 if success else step.number("value", wanted="a number", default=0.0)
    return drs_reward(count + 1 if success else sum(reached), value, stages=count + 1)


def _reached(step: Step, count: int | None = None) -> list[bool]:
    reached = step.values.get("reached")
    is_list = isinstance(reached, list | tuple) and all(isinstance(flag, bool) for flag in reached)
    if not is_list or (count is not None and len(reached or ()) != count):
        raise step.bad("reached", wanted="a list of true and false, as long in each step")
    return list(reached or ())
