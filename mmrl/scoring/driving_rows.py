"""Driving rows: the plan a completion writes, the answer's waypoints, and the scene that a row's columns describe.

Columns, all in metres, seconds, m/s and radians of the car's frame at time 0 (x ahead, y to the left):

    dt             seconds between waypoints; 0.5 where the row has none
    speed          of the car at time 0
    drivable       areas, each a list of corners [[x, y], ...]
    route          the lane centre to follow, [[x, y], ...] in driving order
    agents         [{size: [length, width], poses: [[x, y, heading], ...], static: false}], poses at 0, dt, 2 dt, ...
    ego_size       [length, width]; NAVSIM's car where the row has none
    lanes, oncoming, intersections    areas
    red_lights     [{area: [[x, y], ...], from_s: 0, to_s: 3}]
    progress_bound metres along the route that a good planner reaches; the human driver's where the row has none
    previous_plan  what the frame before planned from now on, [[x, y], ...] in this frame
    speed_limit    m/s
    follow_ups     scenes that may follow the plan, [{start: [x, y], score: 0.8}, ...], in this frame; score: that of
                   the plan made there
    futures        other ways in which the agents may go on, each a list as `agents` is
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import shapely
from shapely.geometry.base import BaseGeometry

from mmrl.data.sample import Sample
from mmrl.scoring.driving_metrics import PdmForm, pdm_score, second_stage
from mmrl.scoring.driving_scene import PACIFICA, Agent, RedLight, Scene, score_plan
from mmrl.scoring.gold import bad_answer, bad_column
from mmrl.scoring.listings import Point, read_points
from mmrl.scoring.literals import as_number, as_numbers, read_literal
from mmrl.scoring.trajectories import MOST_POINTS

FARTHEST_M = 10_000.0
_AGENT = "{size: [length, width], poses: [[x, y, heading], ...]}"


def read_waypoints(value: Any) -> tuple[Point, ...] | None:
    """The waypoints of a list of `[x, y]` or `[x, y, heading]`, or of a mapping under `waypoints`; None for others.

    A point farther than 10 km from the car is no waypoint.
    """
    if isinstance(value, Mapping):
        value = value.get("waypoints")
    if not isinstance(value, list | tuple) or not 0 < len(value) <= MOST_POINTS:
        return None
    bare = [v[:2] if isinstance(v, list | tuple) and len(v) == 3 and as_numbers(v) else v for v in value]
    points = read_points(bare)
    near = points is not None and all(math.hypot(x, y) <= FARTHEST_M for x, y in points)
    return points if near else None


def parse_waypoints(text: str, *, count: int) -> tuple[Point, ...] | None:
    """The plan that the whole text is, if it has `count` waypoints; None otherwise."""
    points = read_waypoints(read_literal(text))
    return points if points is not None and len(points) == count else None


def gold_waypoints(sample: Sample, *, least: int = 1) -> tuple[Point, ...]:
    """The answer's waypoints; RewardError, naming the sample, for anything else or fewer than `least`."""
    points = read_waypoints(read_literal(sample.answer) if isinstance(sample.answer, str) else sample.answer)
    if points is None or len(points) < least:
        raise bad_answer(sample, wanted=f"a list of {least} or more waypoints [x, y] in metres")
    return points


def interval(sample: Sample) -> float:
    """Seconds between waypoints: the column `dt`, 0.5 where the row has none."""
    dt = as_number(sample.columns.get("dt", 0.5))
    if dt is None or dt <= 0:
        raise bad_column(sample, "dt", wanted="a number of seconds above 0")
    return dt


def scene_of(sample: Sample, *, extended: bool) -> Scene:
    """The scene of a row. extended: EPDMS's columns are needed too; those of an empty list say that there is nothing.

    Raises RewardError, naming sample and column, for what is missing or of another form.
    """

    def column(name: str, read: Callable[[Any], Any], wanted: str, *, default: Any = None) -> Any:
        value = sample.columns.get(name)
        if value is None and default is not None:
            return default
        found = None if value is None else read(value)
        if found is None:
            raise bad_column(sample, name, wanted=wanted)
        return found

    nothing = None if extended else shapely.MultiPolygon()
    areas = "a list of areas [[x, y], ...] in metres"
    plan = sample.columns.get("previous_plan")
    return Scene(
        dt=interval(sample),
        speed=column("speed", as_number, "a speed in m/s"),
        drivable=column("drivable", _areas, areas),
        route=column("route", _line, "a line [[x, y], ...] in metres"),
        ego_size=column("ego_size", _size, "[length, width] in metres", default=PACIFICA),
        lanes=column("lanes", _polygons, areas, default=()),
        oncoming=column("oncoming", _areas, areas, default=nothing),
        intersections=column("intersections", _areas, areas, default=nothing),
        agents=read_agents(sample),
        red_lights=column("red_lights", _lights, "a list of {area, from_s, to_s}", default=None if extended else ()),
        progress_bound=_progress_bound(sample),
        previous_plan=None if plan is None else column("previous_plan", _plan, "two or more waypoints [x, y]"),
    )


def read_agents(sample: Sample) -> tuple[Agent, ...]:
    """The column `agents`; RewardError, naming the sample, where it is missing or of another form."""
    agents = _agents(sample.columns.get("agents"))
    if agents is None:
        raise bad_column(sample, "agents", wanted=f"a list of {_AGENT}")
    return agents


def read_futures(sample: Sample) -> tuple[tuple[Agent, ...], ...]:
    """What the agents do, in each of the ways that the row knows: the column `agents`, then those of `futures`."""
    value = sample.columns.get("futures")
    others = [_agents(v) for v in value] if isinstance(value, list | tuple) else [None]
    if None in others:
        raise bad_column(sample, "futures", wanted=f"a list of lists of {_AGENT}")
    return read_agents(sample), *(agents for agents in others if agents is not None)


def _agents(value: Any) -> tuple[Agent, ...] | None:
    agents = [_agent(v) for v in value] if isinstance(value, list | tuple) else [None]
    return None if None in agents else tuple(agent for agent in agents if agent is not None)


def human_drive(sample: Sample, *, extended: bool) -> tuple[tuple[Point, ...], Scene]:
    """What the human driver drove, the answer, and the scene; RewardError for a path too short for comfort."""
    human, scene = gold_waypoints(sample, least=2), scene_of(sample, extended=extended)
    if len(human) * scene.dt < 1:
        raise bad_answer(sample, wanted="a path of a second or longer, which comfort needs")
    return human, scene


def read_follow_ups(sample: Sample) -> list[tuple[Point, float]]:
    """The column `follow_ups`, one scene or more; RewardError, naming the sample, for anything else."""
    value = sample.columns.get("follow_ups")
    found = []
    for entry in value if isinstance(value, list | tuple) else ():
        start = as_numbers(entry.get("start"), count=2) if isinstance(entry, Mapping) else None
        score = as_number(entry.get("score")) if isinstance(entry, Mapping) else None
        if start is None or score is None or not 0 <= score <= 1:
            found.clear()
            break
        found.append(((start[0], start[1]), score))
    if not found:
        raise bad_column(sample, "follow_ups", wanted="a list of {start: [x, y], score}, scores of 0 to 1")
    return found


def pdm_of(
    plan: tuple[Point, ...] | None, sample: Sample, *, form: PdmForm, two_stage: bool = False
) -> dict[str, float]:
    """The score of a plan under `score` and its terms under their names; all 0 without a plan.

    Of EPDMS, terms that are 0 for the human driver, the answer, count as 1. two_stage: times the mean score of the
    column `follow_ups`, by their nearness to the plan's end.
    """
    human, scene = human_drive(sample, extended=form == "epdms")
    follow_ups = read_follow_ups(sample) if two_stage else None
    if plan is None:
        return {"score": 0.0}
    terms = score_plan(plan, scene, human=human)
    if form == "epdms":
        terms = terms.filtered_by(score_plan(human, scene, human=human))
    found = {"score": pdm_score(terms, form=form), **{name: getattr(terms, name) for name in terms.__slots__}}
    if follow_ups is not None:
        found["second_stage"] = second_stage(plan[-1], follow_ups)
        found["score"] *= found["second_stage"]
    return found


def _progress_bound(sample: Sample) -> float | None:
    if sample.columns.get("progress_bound") is None:
        return None
    return _at_least_0(sample, "progress_bound", wanted="a number of metres, 0 or more")


def speed_limit(sample: Sample) -> float:
    """The column `speed_limit`, m/s."""
    return _at_least_0(sample, "speed_limit", wanted="a speed in m/s, 0 or more")


def _at_least_0(sample: Sample, name: str, *, wanted: str) -> float:
    value = as_number(sample.columns.get(name))
    if value is None or value < 0:
        raise bad_column(sample, name, wanted=wanted)
    return value


def _plan(value: Any) -> tuple[Point, ...] | None:
    points = read_waypoints(value)
    return points if points is not None and len(points) > 1 else None


def _line(value: Any) -> shapely.LineString | None:
    points = read_waypoints(value)
    return shapely.LineString(points) if points is not None and len(points) > 1 else None


def _size(value: Any) -> tuple[float, float] | None:
    size = as_numbers(value, count=2)
    return (size[0], size[1]) if size and min(size) > 0 else None


def _polygons(value: Any) -> tuple[BaseGeometry, ...] | None:
    areas = [_polygon(v) for v in value] if isinstance(value, list | tuple) else [None]
    return None if None in areas else tuple(area for area in areas if area is not None)


def _polygon(value: Any) -> BaseGeometry | None:
    corners = read_points(value)
    if corners is None or len(corners) < 3:
        return None
    area = shapely.Polygon(corners)
    return area if area.is_valid and area.area > 0 else None


def _areas(value: Any) -> BaseGeometry | None:
    """One geometry of all areas, so that what lies on the line between two touching areas is inside."""
    areas = _polygons(value)
    return None if areas is None else shapely.union_all(areas)


def _agent(value: Any) -> Agent | None:
    if not isinstance(value, Mapping):
        return None
    size, poses, static = _size(value.get("size")), value.get("poses"), value.get("static", False)
    rows = [as_numbers(pose, count=3) for pose in poses] if isinstance(poses, list | tuple) and poses else [None]
    if size is None or None in rows or not isinstance(static, bool):
        return None
    return Agent(size, np.asarray(rows, float), is_static=static)


def _lights(value: Any) -> tuple[RedLight, ...] | None:
    lights = [_light(v) for v in value] if isinstance(value, list | tuple) else [None]
    return None if None in lights else tuple(light for light in lights if light is not None)


def _light(value: Any) -> RedLight | None:
    area = _polygon(value.get("area")) if isinstance(value, Mapping) else None
    if area is None:
        return None
    start, end = as_number(value.get("from_s", 0.0)), as_number(value.get("to_s", 1e9))
    return None if start is None or end is None else RedLight(area, start, end)
