"""CaRL's reward over an episode: what each step was like, what stays in force for a while, and how a plan is driven.

A tick is 0.1 s. Shape letters: S states, every 0.1 s from 0 to the plan's end; A agents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import shapely

from mmrl.scoring.driving_metrics import CarlStep
from mmrl.scoring.driving_motion import STEP_S, Motion, rectangles
from mmrl.scoring.driving_scene import Drive, Scene
from mmrl.scoring.listings import Point

STICKY_TICKS, PATIENCE_TICKS = 500, 30
LAST_ROUTE = 100.0
_TTC_TICKS = (1, 3, 5, 7, 9)
_STOPPED_MPS = 0.1
_OFF_ROAD = 0.95


@dataclass(frozen=True, slots=True)
class Tick:
    """What one step was like by itself.

    route: completion in percent after it. overspeed_mps: speed above the limit. uncomfortable: names of the comfort
    limits that are broken now. off_centre: more than 0.5 m from the lane's centre; None in a junction, where that does
    not matter. ended_by: what ended the episode in this step. speed_share, is_jump: as those of CarlStep.
    """

    route: float
    on_route_lanes: bool = True
    overspeed_mps: float = 0.0
    ttc_violated: bool = False
    uncomfortable: Collection[str] = ()
    off_centre: bool | None = False
    ended_by: str | None = None
    speed_share: float = 1.0
    is_jump: bool = False


def speed_share(speed: float, traffic: float) -> float:
    """The car's share of the mean speed of the traffic, at most 1; without traffic that moves 1, or 0 where it stands.

    >>> speed_share(5.0, 10.0), speed_share(12.0, 10.0), speed_share(5.0, 0.0), speed_share(0.0, 0.0)
    (0.5, 1.0, 1.0, 0.0)
    """
    if traffic <= 0:
        return float(speed > 0)
    return min(1.0, max(0.0, speed / traffic))


def carl_steps(
    ticks: Sequence[Tick], *, start: float = 0.0, sticky: int = STICKY_TICKS, patience: int = PATIENCE_TICKS
) -> Iterator[CarlStep]:
    """The steps of an episode up to its end, with what earlier ones left in force.

    A violated time to collision and a broken comfort limit count in their own step and the `sticky` - 1 after it. A
    counter of steps off the lane's centre goes up in each of them and down, not below 0, in each other one; above
    `patience` it counts. In junctions it neither moves nor counts. start: completion before the first step.

    >>> ticks = [Tick(1.0, ttc_violated=True), Tick(2.0), Tick(3.0)]
    >>> [step.ttc_violated for step in carl_steps(ticks, sticky=2)]
    [True, True, False]
    """
    route, ttc_ends, ends, off_centre = start, 0, dict[str, int](), 0
    for number, tick in enumerate(ticks):
        if tick.ttc_violated:
            ttc_ends = number + sticky
        ends |= dict.fromkeys(tick.uncomfortable, number + sticky)
        if tick.off_centre is not None:
            off_centre = off_centre + 1 if tick.off_centre else max(0, off_centre - 1)
        yield CarlStep(
            route_before=route,
            route_after=tick.route,
            on_route_lanes=tick.on_route_lanes,
            overspeed_mps=tick.overspeed_mps,
            ttc_violated=number < ttc_ends,
            uncomfortable=sum(number < end for end in ends.values()),
            off_centre=tick.off_centre is not None and off_centre > patience,
            ended_by=tick.ended_by,
            speed_share=tick.speed_share,
            is_jump=tick.is_jump,
        )
        route = tick.route
        if tick.ended_by is not None:
            return


def plan_ticks(plan: Sequence[Point], scene: Scene, *, speed_limit: float) -> list[Tick]:
    """The ticks of a plan driven exactly, up to its end or to what ends it before.

    Completion is measured along the route from the car to the route's end, and never falls. The route's lanes are the
    drivable area without oncoming lanes. A collision ends the plan where it is the car's fault: the others replay a
    recording and do not brake. What moves by more than the car's length in a tick ends with a collision at once.
    """
    motion = Motion(plan, dt=scene.dt, speed=scene.speed)
    if motion.is_jumping(scene.ego_size):
        return [Tick(0.0, ended_by="collision")]
    drive = Drive(motion, scene)
    route_S, ended_S = _completion(drive), _endings(drive)
    outside_S = drive.oncoming_S | ~np.asarray(shapely.covers(scene.drivable, drive.centre_S))
    over_S, traffic_S = np.maximum(0.0, motion.speed_S - speed_limit), _traffic_mps(drive)
    broken, ttc_S = motion.uncomfortable(), _ttc_violated(drive)
    return [
        Tick(
            route=float(route_S[step]),
            on_route_lanes=not outside_S[step],
            overspeed_mps=float(over_S[step]),
            ttc_violated=bool(ttc_S[step]),
            uncomfortable=tuple(name for name, broken_S in broken.items() if broken_S[step]),
            off_centre=None if drive.in_crossing_S[step] else bool(drive.off_centre_S[step]),
            ended_by=ended_S.get(step),
            speed_share=speed_share(float(motion.speed_S[step]), float(traffic_S[step])),
        )
        for step in range(1, drive.count)
    ]


def _completion(drive: Drive) -> np.ndarray:
    """Percent of the route from the car on, (S,)."""
    start, length = drive.along_S[0], drive.scene.route.length
    left = max(length - start, STEP_S)
    return LAST_ROUTE * np.clip((np.maximum.accumulate(drive.along_S) - start) / left, 0.0, 1.0)


def _endings(drive: Drive) -> dict[int, str]:
    """What ends the episode, by state; of several at one state the one that is penalised."""
    finished_S = drive.along_S >= drive.scene.route.length - 1e-9
    off_S = _off_road_share(drive) > _OFF_ROAD
    ends = dict.fromkeys(np.flatnonzero(finished_S).tolist(), "route_finished")
    ends |= dict.fromkeys(np.flatnonzero(off_S).tolist(), "off_road")
    ends |= dict.fromkeys(np.flatnonzero(drive.on_red_S).tolist(), "red_light")
    return ends | {step: "collision" for _, step in drive.at_fault()}


def _off_road_share(drive: Drive) -> np.ndarray:
    on_S = shapely.area(shapely.intersection(drive.footprint_S, drive.scene.drivable))
    return np.asarray(1.0 - on_S / shapely.area(drive.footprint_S))


def _velocities(drive: Drive) -> np.ndarray:
    """Of the agents, m/s, (A, S, 2)."""
    return (drive.pose_AS3[:, 1 : drive.count + 1, :2] - drive.pose_AS3[:, : drive.count, :2]) / STEP_S


def _traffic_mps(drive: Drive) -> np.ndarray:
    """Mean speed of the agents that are no static objects, (S,); 0 without one."""
    moving = [index for index, agent in enumerate(drive.scene.agents) if not agent.is_static]
    speed_AS = np.hypot(*np.moveaxis(_velocities(drive)[moving], 2, 0))
    return speed_AS.mean(axis=0) if moving else np.zeros(drive.count)


def _ttc_violated(drive: Drive) -> np.ndarray:
    """Whether the car meets an agent 0.1 to 0.9 s on, both at constant velocity, (S,); never where it stands."""
    count, agents = drive.count, drive.scene.agents
    violated_S = np.zeros(count, dtype=bool)
    sizes_A2 = np.array([agent.size for agent in agents]).reshape(-1, 2)
    pose_AS3 = drive.pose_AS3[:, :count]
    velocity_AS2 = _velocities(drive)
    for ahead in _TTC_TICKS:
        moved_AS3 = pose_AS3.copy()
        moved_AS3[..., :2] += ahead * STEP_S * velocity_AS2
        boxes_AS = rectangles(moved_AS3.reshape(-1, 3), sizes_A2.repeat(count, axis=0)).reshape(len(agents), count)
        own_S = drive.motion.footprints(drive.scene.ego_size, ahead_s=ahead * STEP_S)
        violated_S |= np.asarray(shapely.intersects(own_S, boxes_AS)).any(axis=0)
    return violated_S & (drive.motion.speed_S >= _STOPPED_MPS)
