"""A group's plans by objectives in order of precedence, each over several futures of the agents (after Pr-MOMDP).

Formula: objectives that a plan survives / objectives. Each objective, in order, keeps those of the plans left that no
other one left dominates: a dominates b where QD(a, b) > `threshold` and QD(b, a) <= 1 - `threshold`. QD(a, b): the
share of quantiles at which a's values over the futures are more than `margin` above b's.
Bounds: 0 to 1. It compares a group: a plan alone gets 1; what is no plan gets 0 and takes no part.
Answer: as many waypoints as the answer has, a second or more: `[[x, y], ...]`.
Space: the car's frame at time 0, x ahead, y to the left; the framework converts nothing. The dataset's answer is the
path of the human driver; the scene stands in the columns of `mmrl.scoring.driving_rows` that `pdms` needs for `epdms`,
and `futures`, other ways in which the agents may go on.
Unit: metres, seconds, m/s, radians.
Source: quantile dominance of Pr-MOMDP, arXiv 2603.20230. An own reconstruction from the abstract, its formulas were not
at hand: there the distributions are learned returns of actions, here the terms of NAVSIM's score over futures.
Example: over four futures no_collision is 0 1 1 1, 0 0 0 1 and 1 1 1 1, progress 0.8, 1 and 0.5; objectives
no_collision, progress: 1, 0, 0.5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, did_you_mean
from mmrl.scoring.driving_metrics import PdmTerms
from mmrl.scoring.driving_rows import human_drive, parse_waypoints, read_futures
from mmrl.scoring.driving_scene import score_plan
from mmrl.scoring.ordered import survived
from mmrl.scoring.parse import AnswerFormat, extract_prediction

BOUNDS = (0.0, 1.0)
ORDER = ("no_collision", "drivable", "direction", "traffic_light", "ttc", "progress")


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    known = [field.name for field in fields(PdmTerms)]
    for name in (name for name in options["objectives"] if name not in known):
        hint = did_you_mean(name, known)
        raise ConfigError(f"plan_dominance: there is no objective {name!r}; there are {', '.join(known)}{hint}")
    if not options["objectives"]:
        raise ConfigError("plan_dominance needs one or more objectives, the most important first")


def score_group(
    completions: list[str],
    sample: Sample,
    *,
    answer: AnswerFormat = "auto",
    objectives: Sequence[str] = ORDER,
    threshold: float = 0.5,
    margin: float = 0.0,
) -> list[dict[str, float]]:
    """`objectives`: terms of NAVSIM's score, the most important first. `margin`: in their unit, shares of 1."""
    human, scene = human_drive(sample, extended=True)
    scenes = [replace(scene, agents=agents) for agents in read_futures(sample)]
    texts = [extract_prediction(completion, answer=answer) or "" for completion in completions]
    plans = [parse_waypoints(text, count=len(human)) for text in texts]
    terms = [[score_plan(plan, future, human=human) for future in scenes] for plan in plans if plan is not None]
    values = [[sorted(getattr(t, name) for t in of_plan) for of_plan in terms] for name in objectives]
    values_KGN = np.array(values).reshape(len(objectives), len(terms), len(scenes))
    left = iter(zip(survived(values_KGN, threshold=threshold, margin=margin), values_KGN.mean(axis=2).T, strict=True))

    def result() -> dict[str, float]:
        kept, mean_K = next(left)
        return {"reward": kept / len(objectives), **dict(zip(objectives, mean_K.tolist(), strict=True))}

    return [{"reward": 0.0} if plan is None else result() for plan in plans]
