"""NAVSIM's components from the geometry of a scene: footprints, agents, lanes, lights. No map service, no simulator.

All lengths in metres and angles in radians, in one frame: x ahead and y to the left of the car at time 0, which stands
at the origin with heading 0. How a plan is driven is in `driving_motion`.

Shape letters: S states, every 0.1 s from 0 to the plan's end; A agents; J projections of a state into the future.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from mmrl.scoring.driving_metrics import PdmTerms
from mmrl.scoring.driving_motion import MOVING_MPS, STEP_S, Motion, rectangles
from mmrl.scoring.listings import Point

PACIFICA = (5.176, 2.297)
_STOPPED_MPS, _TTC_STOPPED_MPS = 5e-2, 5e-3
_TTC_STEPS = (0, 3, 6, 9)
_AHEAD, _BEHIND = math.radians(30), math.radians(150)
_WRONG_WAY_M, _WRONG_WAY_STEPS = (2.0, 6.0), 10
LATERAL_M, _LATERAL_STEPS = 0.5, 20
_SHORT_ROUTE_M = 5.0


@dataclass(frozen=True, slots=True)
class Agent:
    """A road user or object. size: length, width. poses: x, y, heading at 0, dt, 2 dt, ...; beyond
    the last it goes on as before."""

    size: tuple[float, float]
    poses: np.ndarray
    is_static: bool = False


@dataclass(frozen=True, slots=True)
class RedLight:
    """An area that must not be entered from one time to another, in seconds."""

    area: BaseGeometry
    from_s: float = 0.0
    to_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Scene:
    """What a plan is judged by. Areas may be empty geometries. route: the lane centre to follow, in driving order.

    progress_bound: metres along the route that a good planner reaches; None: what the human driver reached.
    previous_plan: the plan of the frame before from now on, in this frame; None: there is none.
    """

    dt: float
    speed: float
    drivable: BaseGeometry
    route: shapely.LineString
    ego_size: tuple[float, float] = PACIFICA
    lanes: tuple[BaseGeometry, ...] = ()
    oncoming: BaseGeometry = field(default_factory=shapely.Polygon)
    intersections: BaseGeometry = field(default_factory=shapely.Polygon)
    agents: tuple[Agent, ...] = ()
    red_lights: tuple[RedLight, ...] = ()
    progress_bound: float | None = None
    previous_plan: tuple[Point, ...] | None = None


def score_plan(waypoints: Sequence[Point], scene: Scene, *, human: Sequence[Point]) -> PdmTerms:
    """All components of a plan. human: what the driver drove, waypoints at the same times.

    All are 0 where the car would move by more than its length between two states: it could jump over others.
    """
    motion = Motion(waypoints, dt=scene.dt, speed=scene.speed)
    if motion.is_jumping(scene.ego_size):
        return PdmTerms(*[0.0] * len(fields(PdmTerms)))
    drive = Drive(motion, scene)
    bound = scene.progress_bound
    if bound is None:
        bound = Drive(Motion(human, dt=scene.dt, speed=scene.speed), scene).progress()
    return PdmTerms(
        no_collision=drive.no_collision(),
        drivable=float(not drive.off_road_S.any()),
        direction=drive.direction(),
        traffic_light=drive.traffic_light(),
        progress=min(drive.progress() / bound, 1.0) if bound > _SHORT_ROUTE_M else 1.0,
        ttc=drive.ttc(),
        lane_keeping=drive.lane_keeping(),
        comfort=float(drive.motion.is_comfortable()),
        extended_comfort=drive.extended_comfort(),
    )


class Drive:
    """A motion in a scene."""

    def __init__(self, motion: Motion, scene: Scene) -> None:
        self.motion, self.scene = motion, scene
        self.count = len(motion.time_S)
        self.centre_S = np.asarray(shapely.points(motion.position_S2))
        for area in (scene.drivable, scene.oncoming, scene.intersections, *scene.lanes):
            shapely.prepare(area)

    @cached_property
    def footprint_S(self) -> np.ndarray:
        return self.motion.footprints(self.scene.ego_size)

    @cached_property
    def corner_S4(self) -> np.ndarray:
        corners_S42 = shapely.get_coordinates(self.footprint_S).reshape(-1, 5, 2)[:, :4]
        return np.asarray(shapely.points(corners_S42))

    @cached_property
    def pose_AS3(self) -> np.ndarray:
        """Poses of the agents at the states and at as many more as a projection looks ahead."""
        count, agents = self.count + max(_TTC_STEPS), self.scene.agents
        poses = [_at_states(agent, count=count, dt=self.scene.dt) for agent in agents]
        return np.stack(poses) if poses else np.empty((0, count, 3))

    @cached_property
    def box_AS(self) -> np.ndarray:
        agents, count, _ = self.pose_AS3.shape
        sizes_A2 = np.array([agent.size for agent in self.scene.agents]).reshape(-1, 2)
        return rectangles(self.pose_AS3.reshape(-1, 3), sizes_A2.repeat(count, axis=0)).reshape(agents, count)

    @cached_property
    def off_road_S(self) -> np.ndarray:
        return np.asarray(~_covers(self.scene.drivable, self.corner_S4).all(axis=1))

    @cached_property
    def exposed_S(self) -> np.ndarray:
        """Off the road, or over several lanes with no lane holding all corners: where a side collision is our fault."""
        if not self.scene.lanes:
            return self.off_road_S
        inside_LS4 = np.stack([_covers(lane, self.corner_S4) for lane in self.scene.lanes])
        touched_S, whole_S = inside_LS4.any(axis=2).sum(axis=0), inside_LS4.all(axis=2).any(axis=0)
        return np.asarray(self.off_road_S | ((touched_S > 1) & ~whole_S))

    def no_collision(self) -> float:
        """0 after an at-fault collision with an agent, 0.5 with a static object; not what overlaps at the start."""
        scores = (0.5 if self.scene.agents[agent].is_static else 0.0 for agent, _ in self.at_fault())
        return min(scores, default=1.0)

    def at_fault(self) -> list[tuple[int, int]]:
        """Agents that the car collides with by its own fault, each with the state of the first contact."""
        hit_AS = _meets(self.footprint_S, self.box_AS[:, : self.count])
        agents = np.flatnonzero(hit_AS.any(axis=1) & ~hit_AS[:, 0]).tolist()
        contacts = ((agent, int(hit_AS[agent].argmax())) for agent in agents)
        return [(agent, step) for agent, step in contacts if self._is_at_fault(agent, step)]

    def _is_at_fault(self, agent: int, step: int) -> bool:
        """nuPlan's rule for the first contact: never when standing or hit from behind; always with the front, or into
        what stands; with the side where the car was exposed.
        """
        if self.motion.speed_S[step] <= _STOPPED_MPS:
            return False
        poses_S3 = self.pose_AS3[agent]
        if self.scene.agents[agent].is_static or _speed(poses_S3, step) <= _STOPPED_MPS:
            return True
        if self._bearing(step, poses_S3[step]) > _BEHIND:
            return False
        front = shapely.LineString(shapely.get_coordinates(self.footprint_S[step])[:2])
        return bool(shapely.intersects(front, self.box_AS[agent, step])) or bool(self.exposed_S[step])

    def _bearing(self, step: int, pose: np.ndarray, *, ahead_s: float = 0.0) -> float:
        """Angle between the car's heading and the way to a pose, 0 to pi, from where the car is some seconds later."""
        heading, moved = self.motion.heading_S[step], ahead_s * self.motion.speed_S[step]
        x, y = pose[:2] - self.motion.position_S2[step] - moved * np.array([math.cos(heading), math.sin(heading)])
        return abs(math.remainder(math.atan2(y, x) - heading, 2 * math.pi))

    def ttc(self) -> float:
        """0 if going on at constant velocity for 0, 0.3, 0.6 or 0.9 s meets an agent ahead, or beside where exposed.

        Of each agent the first such meeting counts; after a harmless one it is left out, as are those that overlap at
        the start.
        """
        moving_S = self.motion.speed_S >= _TTC_STOPPED_MPS
        met_ASJ = np.stack([self._meetings(ahead) for ahead in _TTC_STEPS], axis=2) & moving_S[:, None]
        overlaps_A = _meets(self.footprint_S[0], self.box_AS[:, 0])
        for agent in np.flatnonzero(met_ASJ.any(axis=(1, 2)) & ~overlaps_A):
            step, projection = divmod(int(met_ASJ[agent].argmax()), len(_TTC_STEPS))
            if self._threatens(step, agent, ahead=_TTC_STEPS[projection]):
                return 0.0
        return 1.0

    def _meetings(self, ahead: int) -> np.ndarray:
        """Whether the car, moved on by some states at constant velocity, meets where each agent will be, (A, S)."""
        projected_S = self.motion.footprints(self.scene.ego_size, ahead_s=ahead * STEP_S)
        return _meets(projected_S, self.box_AS[:, ahead : ahead + self.count])

    def _threatens(self, step: int, agent: int, *, ahead: int) -> bool:
        """Seen from where the car would be then; NAVSIM looks from where it is now, so one from behind seems ahead."""
        bearing = self._bearing(step, self.pose_AS3[agent, step + ahead], ahead_s=ahead * STEP_S)
        beside_counts = bool(self.exposed_S[step]) or bool(self.in_crossing_S[step])
        return bearing < _AHEAD or (bearing <= _BEHIND and beside_counts)

    def direction(self) -> float:
        """1 below 2 m driven in oncoming lanes within one second, 0.5 below 6 m, else 0."""
        moved_S = np.append(0.0, np.hypot(*np.diff(self.motion.position_S2, axis=0).T))
        wrong_S = np.where(self.oncoming_S, moved_S, 0.0)
        total_S = np.concatenate([np.zeros(_WRONG_WAY_STEPS + 1), np.cumsum(wrong_S)])
        most = (total_S[_WRONG_WAY_STEPS + 1 :] - total_S[: -_WRONG_WAY_STEPS - 1]).max()
        return 1.0 if most < _WRONG_WAY_M[0] else 0.5 if most < _WRONG_WAY_M[1] else 0.0

    def traffic_light(self) -> float:
        """0 if the car touches the area of a light while it is red."""
        return float(not self.on_red_S.any())

    @cached_property
    def on_red_S(self) -> np.ndarray:
        time_S, touches_S = self.motion.time_S, np.zeros(self.count, dtype=bool)
        for light in self.scene.red_lights:
            red_S = (time_S >= light.from_s) & (time_S <= light.to_s)
            touches_S |= _meets(light.area, self.footprint_S) & red_S
        return touches_S

    def progress(self) -> float:
        """Metres along the route from the first to the last state, not below 0."""
        return max(0.0, float(self.along_S[-1] - self.along_S[0]))

    @cached_property
    def along_S(self) -> np.ndarray:
        """Metres of the route that lie behind the nearest point of it."""
        return np.asarray(shapely.line_locate_point(self.scene.route, self.centre_S))

    @cached_property
    def off_centre_S(self) -> np.ndarray:
        """Whether the centre is more than 0.5 m off the route."""
        return np.asarray(shapely.distance(self.scene.route, self.centre_S)) > LATERAL_M

    @cached_property
    def in_crossing_S(self) -> np.ndarray:
        return _covers(self.scene.intersections, self.centre_S)

    @cached_property
    def oncoming_S(self) -> np.ndarray:
        return _covers(self.scene.oncoming, self.centre_S)

    def lane_keeping(self) -> float:
        """0 if the centre is more than 0.5 m off the route for 2 s without a break, crossings left out."""
        run = longest = 0
        for off in self.off_centre_S & ~self.in_crossing_S:
            run = run + 1 if off else 0
            longest = max(longest, run)
        return float(longest <= _LATERAL_STEPS)

    def extended_comfort(self) -> float:
        """Whether the plan goes on as the one of the frame before; 1 without one."""
        plan = self.scene.previous_plan
        if plan is None:
            return 1.0
        return float(self.motion.is_consistent_with(Motion(plan, dt=self.scene.dt, speed=self.scene.speed)))


def _covers(area: BaseGeometry, points: np.ndarray) -> np.ndarray:
    return np.asarray(shapely.covers(area, points))


def _meets(first: Any, second: Any) -> np.ndarray:
    return np.asarray(shapely.intersects(first, second))


def _at_states(agent: Agent, *, count: int, dt: float) -> np.ndarray:
    """The agent's poses at `count` states, (S, 3): linear between its own, and beyond them going on as it last did."""
    poses = agent.poses
    last = poses[-1] - poses[-2] if len(poses) > 1 else np.zeros(3)
    last = np.array([last[0], last[1], 0.0])
    beyond = math.ceil(count * STEP_S / dt)
    poses = np.concatenate([poses, poses[-1] + np.arange(1, beyond + 1)[:, None] * last])
    time_S, own = STEP_S * np.arange(count), dt * np.arange(len(poses))
    values = (poses[:, 0], poses[:, 1], np.unwrap(poses[:, 2]))
    return np.column_stack([np.interp(time_S, own, value) for value in values])


def _speed(poses_S3: np.ndarray, step: int) -> float:
    before, after = max(step - 1, 0), min(step + 1, len(poses_S3) - 1)
    return float(np.hypot(*(poses_S3[after] - poses_S3[before])[:2])) / ((after - before) * STEP_S)


def collides(
    waypoints_T2: Sequence[Point],
    agents: Sequence[Agent],
    *,
    size: tuple[float, float],
    shift: float = 0.0,
    aligned: bool = False,
) -> np.ndarray:
    """Whether the car's box meets an agent's at each waypoint, (T,). Agents' poses begin one step before the waypoints.

    The box lies along the path. shift: metres from a waypoint ahead to the middle of the box. aligned: the box lies
    along the x axis instead, as in UniAD (which also rasterises both to cells of 0.5 m).
    """
    points = np.concatenate([np.zeros((1, 2)), np.asarray(waypoints_T2, float)])
    step_T2 = np.diff(points, axis=0)
    moving_T = np.hypot(*step_T2.T) > STEP_S * MOVING_MPS
    latest = np.maximum.accumulate(np.where(moving_T, np.arange(len(moving_T)), -1))
    heading_T = np.where(latest >= 0, np.arctan2(step_T2[latest, 1], step_T2[latest, 0]), 0.0)
    heading_T = np.zeros(len(heading_T)) if aligned else heading_T
    centre_T2 = points[1:] + shift * np.stack([np.cos(heading_T), np.sin(heading_T)], axis=1)
    box_T = rectangles(np.column_stack([centre_T2, heading_T]), size)
    hit_T = np.zeros(len(box_T), dtype=bool)
    for agent in agents:
        at_T = np.minimum(np.arange(1, len(points)), len(agent.poses) - 1)
        hit_T |= _meets(box_T, rectangles(agent.poses[at_T], agent.size))
    return hit_T
