"""A planned path against the path that was driven: displacement, and collisions where the row has agents.

Formula: exp(-E / scale), E the mean (`ade`) or last (`fde`) distance of waypoints of the same time; with the column
`agents` times the share of waypoints whose box meets no agent, those where the answer's own box does left out. The
values `l2_at_1s`, .. (UniAD: at 1, 2, 3 s), `l2_until_1s`, .. (ST-P3, VAD: mean up to then) and `collision_1s`, .. are
logged.
Bounds: 0 to 1.
Answer: as many waypoints as the answer has, `[[x, y], ...]`; another number of them scores 0.
Space: the car's frame at time 0, x ahead, y to the left; the framework converts nothing.
Unit: metres; waypoints `dt` (column, 0.5) seconds apart. `agents` as in `mmrl.scoring.driving_rows`.
Source: nuScenes open-loop metrics of UniAD and ST-P3; exp(-ADE) as the trajectory term of a reward after Drive-R1. The
car is 4.084 x 1.85 m, its middle 0.5 m ahead of the waypoint, along the path; `aligned`: along x, as UniAD.
Example: displacements 0, 0.2, 0.4, 0.3, 0.2, 0.1 at 2 Hz: ADE 0.2, exp(-0.2) = 0.818731; FDE 0.1, 0.904837; l2_at 0.2,
0.3, 0.1 and l2_until 0.1, 0.225, 0.2 at 1, 2, 3 s.
"""

from typing import Literal

import numpy as np

from mmrl.data.sample import Sample
from mmrl.scoring.driving_rows import gold_waypoints, interval, parse_waypoints, read_agents
from mmrl.scoring.driving_scene import Agent, collides
from mmrl.scoring.listings import Point
from mmrl.scoring.parse import AnswerFormat, extract_prediction
from mmrl.scoring.trajectories import displacement_errors, displacements, horizon_steps, l2_at, l2_until

BOUNDS = (0.0, 1.0)
CAR_M = (4.084, 1.85)
SHIFT_M = 0.5


def score(
    completion: str,
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    measure: Literal["ade", "fde"] = "ade",
    scale: float = 1.0,
    aligned: bool = False,
) -> dict[str, float]:
    """`scale`: metres at which the score is 1 / e. `aligned`: boxes along the x axis, whatever the path's direction."""
    gold, dt = gold_waypoints(sample), interval(sample)
    agents = read_agents(sample) if sample.columns.get("agents") is not None else None
    plan = parse_waypoints(extract_prediction(completion, answer=answer) or "", count=len(gold))
    if plan is None:
        return {"reward": 0.0}
    distance_T = displacements(plan, gold)
    ade, fde = displacement_errors(distance_T)
    extras = {"ade": ade, "fde": fde}
    extras |= {f"l2_at_{second}s": value for second, value in l2_at(distance_T, dt=dt).items()}
    extras |= {f"l2_until_{second}s": value for second, value in l2_until(distance_T, dt=dt).items()}
    reward = float(np.exp(-(ade if measure == "ade" else fde) / scale))
    if agents is not None:
        free_T = _free(plan, gold, agents, aligned=aligned)
        steps = horizon_steps(len(gold), dt=dt)
        extras |= {f"collision_{second}s": float(not free_T[: step + 1].all()) for second, step in steps.items()}
        reward *= float(free_T.mean())
    return {"reward": reward, **extras}


def _free(plan: tuple[Point, ...], gold: tuple[Point, ...], agents: tuple[Agent, ...], *, aligned: bool) -> np.ndarray:
    """Whether each waypoint is clear of agents, or the answer's is not either."""
    own_T = collides(plan, agents, size=CAR_M, shift=SHIFT_M, aligned=aligned)
    return ~own_T | collides(gold, agents, size=CAR_M, shift=SHIFT_M, aligned=aligned)
