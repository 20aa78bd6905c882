"""Coming nearer to a target than ever before, step by step, and reaching it (SPOC's RL baseline).

Formula: sum over steps of -`step_cost` + max(best - d, 0), best the least distance before the step, + `bonus` where the
episode ends in success.
Bounds: none; going to and fro earns nothing, since only a new best is paid.
Answer: any text; it is not read. The column `distances` is the distance to the target at the start and after each step;
the column `success` whether the agent ended the episode at its target. With `shortest_steps`, the steps of the best
path, SEL = success shortest / max(steps, shortest) is logged.
Space: none.
Unit: of the distances; metres in the source.
Source: allenai/spoc-robot-training: 0.01 a step in object navigation (0 in its other tasks), 10 for success.
Example: from 3.0 to 2.8: 0.19; from 2.8 to 3.0: -0.01; 0.1 nearer, and success: 10.09. SEL of 60 steps
for 50: 0.833333.
"""

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_column
from mmrl.scoring.literals import as_number, as_numbers

MEASURE = True


def score(completion: str, sample: Sample, *, step_cost: float = 0.01, bonus: float = 10.0) -> dict[str, float]:
    """`step_cost`: what a step costs. `bonus`: for success at the end."""
    distances = as_numbers(sample.columns.get("distances"))
    if distances is None or len(distances) < 2 or min(distances) < 0:
        raise bad_column(sample, "distances", wanted="two or more distances, at the start and after each step")
    success = sample.columns.get("success")
    if not isinstance(success, bool):
        raise bad_column(sample, "success", wanted="true or false")
    steps = len(distances) - 1
    nearer = distances[0] - min(distances)
    found = {"reward": nearer - step_cost * steps + bonus * success, "nearer": nearer, "success": float(success)}
    if sample.columns.get("shortest_steps") is None:
        return found
    shortest = as_number(sample.columns["shortest_steps"])
    if shortest is None or shortest <= 0:
        raise bad_column(sample, "shortest_steps", wanted="a number above 0")
    return {**found, "sel": success * shortest / max(steps, shortest)}
