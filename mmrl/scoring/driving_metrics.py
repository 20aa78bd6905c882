"""Driving scores from numbers that are known already: PDMS and EPDMS, CaRL, VLM-RL, leaderboard, open-loop terms. Pure.

Geometry that yields the components is in `mmrl.scoring.driving_scene`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from mmrl.scoring.listings import Point
from mmrl.scoring.similarities import contrast_score
from mmrl.scoring.trajectories import displacement_errors, displacements

CarlForm = Literal["product", "sum"]
PdmForm = Literal["pdms", "epdms", "recogdrive"]
INFRACTIONS = {"pedestrian": 0.5, "vehicle": 0.6, "static": 0.65, "red_light": 0.7, "stop_sign": 0.8}
_OVERSPEED_MPS = 2.23
_COMFORT_LIMITS = 6
_NO_WEIGHT = 1e-8
_EPISODE_STEPS = 2000  # roughly those of an episode of CaRL that is driven to its end
CARL_HINTS = ("collision", "red_light")
"""What ends an episode of CaRL with its penalty, the terminal hint."""


@dataclass(frozen=True, slots=True)
class PdmTerms:
    """The components of NAVSIM's scores, each from 0 to 1 and named as there.

    no_collision: 0 after an at-fault collision with an agent, 0.5 with a static object. drivable, traffic_light, ttc,
    lane_keeping, comfort, extended_comfort: 0 or 1. direction: 0, 0.5 or 1. progress: any share.
    """

    no_collision: float = 1.0
    drivable: float = 1.0
    direction: float = 1.0
    traffic_light: float = 1.0
    progress: float = 1.0
    ttc: float = 1.0
    lane_keeping: float = 1.0
    comfort: float = 1.0
    extended_comfort: float = 1.0

    def filtered_by(self, human: PdmTerms) -> PdmTerms:
        """EPDMS's filter of false alarms: a term that is 0 for the human driver is 1; not so extended comfort."""
        names = [f.name for f in fields(self) if f.name != "extended_comfort" and getattr(human, f.name) == 0]
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return PdmTerms(**{**values, **dict.fromkeys(names, 1.0)})


def pdm_score(terms: PdmTerms, *, form: PdmForm = "pdms") -> float:
    """NAVSIM's score from its terms, 0 to 1.

    pdms:       NC DAC (5 EP + 5 TTC + 2 C) / 12
    recogdrive: NC DAC (10 EP + 5 TTC + 2 C) / 17, the weights ReCogDrive trains with
    epdms:      NC DAC DDC TLC (5 EP + 5 TTC + 2 LK + 2 HC + 2 EC) / 16

    >>> round(pdm_score(PdmTerms(no_collision=0.5, progress=0.9, comfort=0)), 6)
    0.395833
    """
    t = terms
    gate = t.no_collision * t.drivable
    if form == "epdms":
        soft = 5 * t.progress + 5 * t.ttc + 2 * (t.lane_keeping + t.comfort + t.extended_comfort)
        return gate * t.direction * t.traffic_light * soft / 16
    progress = 10 if form == "recogdrive" else 5
    return gate * (progress * t.progress + 5 * t.ttc + 2 * t.comfort) / (progress + 7)


def second_stage(end: Point, follow_ups: Sequence[tuple[Point, float]], *, variance: float = 0.1) -> float:
    """NAVSIM v2's second stage: the mean score of follow-up scenes, (start, score) each, by nearness to a plan's end.

    Weights are exp(-d^2 / (2 variance)), d in metres; where none is near enough to have one, all weigh the same. The
    two-stage score is the first stage's score times this.

    >>> round(second_stage((40, 0), [((40, 0), 0.8), ((40, 0.5), 0.4)]), 6)
    0.71092
    """
    weights = [math.exp(-(math.dist(end, start) ** 2) / (2 * variance)) for start, _ in follow_ups]
    total = math.fsum(weights)
    if total < _NO_WEIGHT:
        weights, total = [1.0] * len(follow_ups), float(len(follow_ups))
    return math.fsum(w * score for w, (_, score) in zip(weights, follow_ups, strict=True)) / total


def denoising_weights(steps: int, *, decay: float = 0.6) -> list[float]:
    """ReCogDrive's weights of the K denoising steps, decay^(K - 1 - k): the last steps count most.

    >>> [round(w, 4) for w in denoising_weights(5)]
    [0.1296, 0.216, 0.36, 0.6, 1.0]
    """
    return [decay ** (steps - 1 - step) for step in range(steps)]


def autovla_reward(pdms: float, *, characters: int, reasons: bool) -> float:
    """AutoVLA: 10 (PDMS - 0.3 sigmoid(0.002 (characters - 400)) [reasons]).

    >>> round(autovla_reward(0.9, characters=1400, reasons=True), 4)
    6.3576
    """
    # tanh form of the sigmoid: no overflow for texts of any length.
    penalty = 0.3 * 0.5 * (1 + math.tanh(0.001 * (characters - 400))) if reasons else 0.0
    return 10 * (pdms - penalty)


@dataclass(frozen=True, slots=True)
class CarlStep:
    """What one step of a CARLA episode was like, for CaRL.

    route_before, route_after: completion in percent. overspeed_mps: speed above the limit, m/s. uncomfortable: how many
    of the six comfort limits are violated now or were within the sticky time. off_centre: more than 0.5 m from the
    lane's centre for longer than 3 s. ended_by: what ended the episode in this step, None where it goes on.
    speed_share: of the mean speed of the traffic, at most 1. is_jump: a control moved by more than 0.25.
    """

    route_before: float
    route_after: float
    on_route_lanes: bool = True
    overspeed_mps: float = 0.0
    ttc_violated: bool = False
    uncomfortable: int = 0
    off_centre: bool = False
    ended_by: str | None = None
    speed_share: float = 1.0
    is_jump: bool = False


@dataclass(frozen=True, slots=True)
class CarlRules:
    """What CaRL can do and does not by default.

    form: `sum` adds terms as nuPlan's score does. minimum_speed: slower than the traffic costs. action_jump: so does a
    jump of the controls.
    """

    form: CarlForm = "product"
    minimum_speed: bool = False
    action_jump: bool = False


def carl_reward(step: CarlStep, rules: CarlRules | None = None, *, steps: int = 1) -> float:
    """CaRL: (RC_t - RC_(t-1)) * product of soft factors - [ended by a collision or a red light].

    Factors: off the route's lanes 0; max(0, 1 - overspeed / 2.23); TTC violated 0.5; 1 - 0.5 n / 6 for n uncomfortable
    limits; off centre 0.5; by its rules the share of the traffic's speed, and 0.5 for a jump of the controls.
    sum: (5 dRC + 5 TTC + 4 speed + 2 comfort) / 16 in place of the first four, each of the last three 100 / 2000 where
    nothing is violated; dRC is 0 off the route's lanes. steps: of the episode; longer ones than 2000 take their own.

    >>> carl_reward(CarlStep(10.0, 10.5)), carl_reward(CarlStep(10.0, 10.5, ttc_violated=True, uncomfortable=3))
    (0.5, 0.1875)
    >>> carl_reward(CarlStep(10.0, 10.5), CarlRules("sum"))
    0.190625
    """
    rules = rules or CarlRules()
    progress = (step.route_after - step.route_before) * step.on_route_lanes
    if rules.form == "sum":
        share = 100 / max(steps, _EPISODE_STEPS)
        kept = 5 * (not step.ttc_violated) + 4 * (step.overspeed_mps <= 0) + 2 * (not step.uncomfortable)
        paid = (5 * progress + kept * share) / 16
    else:
        paid = progress * max(0.0, 1 - max(0.0, step.overspeed_mps) / _OVERSPEED_MPS)
        paid *= 0.5 if step.ttc_violated else 1.0
        paid *= 1 - 0.5 * step.uncomfortable / _COMFORT_LIMITS
    paid *= 0.5 if step.off_centre else 1.0
    paid *= step.speed_share if rules.minimum_speed else 1.0
    paid *= 0.5 if rules.action_jump and step.is_jump else 1.0
    return paid - (step.ended_by in CARL_HINTS)


@dataclass(frozen=True, slots=True)
class VehicleState:
    """Of VLM-RL. speed_kmh; offset_m from the lane's centre; angle_deg to the lane; offset_std_m over recent steps."""

    speed_kmh: float
    offset_m: float
    angle_deg: float
    offset_std_m: float
    failed: bool = False


@dataclass(frozen=True, slots=True)
class VlmRlLimits:
    """VLM-RL's constants, of its best set. least_speed_reward bounds what speeding costs; None as in the source."""

    target_kmh: float = 25.0
    offset_m: float = 2.0
    angle_deg: float = 90.0
    offset_std_m: float = 0.35
    contrast: float = 0.03
    penalty: float = -10.0
    least_speed_reward: float | None = None


def vlm_rl_reward(
    *, cos_negative: float, cos_positive: float, state: VehicleState, limits: VlmRlLimits | None = None
) -> float:
    """VLM-RL: contrasting language goals set the wanted speed, the vehicle's state the rest.

    s = 1 - clip(cos_negative - cos_positive, 0, 0.03) / 0.03, wanted speed s * target,
    r = (1 - |v - wanted| / target) * max(0, 1 - offset / 2) * max(0, 1 - angle / 90) * max(0, 1 - std / 0.35);
    -10 where the episode failed. cos_*: similarity of the picture to "two cars have collided" and "the road is clear".
    The first factor is negative above twice the target speed, unless `least_speed_reward` bounds it.

    >>> state = VehicleState(speed_kmh=25, offset_m=0.5, angle_deg=9, offset_std_m=0.07)
    >>> round(vlm_rl_reward(cos_negative=0.22, cos_positive=0.205, state=state), 6)
    0.27
    """
    limits = limits or VlmRlLimits()
    if state.failed:
        return limits.penalty
    calm = contrast_score(cos_bad=cos_negative, cos_good=cos_positive, width=limits.contrast)
    speed = 1 - abs(state.speed_kmh - calm * limits.target_kmh) / limits.target_kmh
    if limits.least_speed_reward is not None:
        speed = max(speed, limits.least_speed_reward)
    shares = (
        (state.offset_m, limits.offset_m),
        (state.angle_deg, limits.angle_deg),
        (state.offset_std_m, limits.offset_std_m),
    )
    return speed * math.prod(max(0.0, 1 - abs(value) / limit) for value, limit in shares)


def driving_score(routes: Sequence[tuple[float, Mapping[str, int]]]) -> float:
    """CARLA leaderboard: mean over routes of completion (percent) times the product of penalties per infraction.

    Raises KeyError for an infraction that is none of INFRACTIONS.

    >>> round(driving_score([(80.0, {"red_light": 2})]), 6)
    39.2
    """
    scores = [done * math.prod(INFRACTIONS[name] ** count for name, count in of.items()) for done, of in routes]
    return sum(scores) / len(scores)


def drivelm_final(*, gpt: float, language: float, match: float, accuracy: float) -> float:
    """DriveLM's final score: 0.4 gpt / 100 + 0.2 language + 0.2 match / 100 + 0.2 accuracy.

    >>> round(drivelm_final(gpt=60, language=0.5, match=40, accuracy=0.7), 6)
    0.56
    """
    return 0.4 * gpt / 100 + 0.2 * language + 0.2 * match / 100 + 0.2 * accuracy


def point_match_f1(
    predicted: Sequence[Point], answer: Sequence[Point], *, radius: float, greedy: bool = False
) -> float:
    """F1 of points matched one to one where |dx| + |dy| < radius.

    The most matches that are possible; greedy, as DriveLM: each predicted point in turn takes the nearest one left.

    >>> point_match_f1([(0, 0), (100, 100), (500, 500)], [(10, 3), (100, 105)], radius=16)
    0.8
    """
    if not predicted or not answer:
        return 0.0
    cost_NM = np.abs(np.asarray(predicted, float)[:, None] - np.asarray(answer, float)[None]).sum(-1)
    matches = _greedy(cost_NM, radius) if greedy else _most(cost_NM, radius)
    return 2 * matches / (len(predicted) + len(answer))


def _most(cost_NM: np.ndarray, radius: float) -> int:
    near_NM = cost_NM < radius
    return int(near_NM[linear_sum_assignment(~near_NM)].sum())


def _greedy(cost_NM: np.ndarray, radius: float) -> int:
    left = np.ones(cost_NM.shape[1], dtype=bool)
    matches = 0
    for row_M in cost_NM:
        if not left.any():
            break
        nearest = int(np.where(left, row_M, np.inf).argmin())
        if row_M[nearest] < radius:
            left[nearest] = False
            matches += 1
    return matches


def plan_closeness(predicted: Sequence[Point], answer: Sequence[Point], *, scale: float) -> float:
    """exp(-ADE / scale) of two paths of equal length, 1 for the answer itself.

    >>> round(plan_closeness([(0, 0.5), (1, 0.5)], [(0, 0), (1, 0)], scale=1.0), 4)
    0.6065
    """
    ade, _ = displacement_errors(displacements(predicted, answer))
    return math.exp(-ade / scale)
