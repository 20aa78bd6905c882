"""Recorded episodes: the columns of a row that say what each step was like; those of CaRL and VLM-RL in full."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError, did_you_mean, type_words
from mmrl.scoring.carl import LAST_ROUTE, Tick, speed_share
from mmrl.scoring.driving_metrics import VehicleState
from mmrl.scoring.driving_motion import COMFORT
from mmrl.scoring.driving_scene import LATERAL_M
from mmrl.scoring.gold import bad_column
from mmrl.scoring.literals import as_number

ENDINGS = (
    "collision", "red_light", "stop_sign", "blocked", "route_deviation", "timeout", "off_road", "route_finished",
)  # fmt: skip
_STEP_KEYS = (
    "route_completion", "speed", "speed_limit", "outside_lanes", "ttc_violated", "lane_offset", "in_junction",
    "dynamics", "ended_by", "traffic_speed", "controls",
)  # fmt: skip
_CONTROLS = ("steer", "throttle", "brake")
_LARGEST_CHANGE = 0.25  # of a control between two steps of CaRL
_STATE_KEYS = ("speed_kmh", "offset_m", "angle_deg", "failed")


class Step:
    """One entry of a column that is a list of steps; what it holds is checked where it is read."""

    def __init__(self, sample: Sample, column: str, number: int, values: Any, *, keys: Sequence[str]) -> None:
        self.where = f"{sample.where}: the column {column!r}, step {number}"
        if not isinstance(values, Mapping):
            raise RewardError(f"{self.where}: it is {type_words(values)}, not a mapping of {', '.join(keys)}")
        for key in (key for key in values if key not in keys):
            raise RewardError(f"{self.where}: there is no key {key!r}{did_you_mean(str(key), keys)}")
        self.values = values

    def bad(self, key: str, *, wanted: str) -> RewardError:
        has = f"{key!r} is {type_words(self.values[key])}, not" if key in self.values else f"{key!r} is missing; it is"
        return RewardError(f"{self.where}: {has} {wanted}")

    def number(self, key: str, *, wanted: str, default: float | None = None) -> float:
        value = self.values.get(key)
        found = default if value is None else as_number(value)
        if found is None:
            raise self.bad(key, wanted=wanted)
        return found

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.bad(key, wanted="true or false")
        return bool(value)


def read_steps(sample: Sample, column: str, *, keys: Sequence[str]) -> list[Step]:
    """The entries of a column. RewardError, naming sample and step, for none, for no mapping and for unknown keys."""
    value = sample.columns.get(column)
    if not isinstance(value, list | tuple) or not value:
        raise bad_column(sample, column, wanted=f"a list of steps, each with {', '.join(keys)}")
    return [Step(sample, column, number, values, keys=keys) for number, values in enumerate(value)]


def route_start(sample: Sample) -> float:
    """The column `route_start`, percent of the route before the first step; 0 where the row has none."""
    value = sample.columns.get("route_start")
    start = 0.0 if value is None else as_number(value)
    if start is None or not 0 <= start <= LAST_ROUTE:
        raise RewardError(f"{sample.where}: the column 'route_start' is {value!r:.80}, not a percentage of 0 to 100")
    return start


def carl_ticks(sample: Sample) -> list[Tick]:
    """The column `steps` for CaRL. RewardError, naming sample, step and key, for what is missing or no such thing."""
    steps = read_steps(sample, "steps", keys=_STEP_KEYS)
    ticks, before = [], route_start(sample)
    controls: dict[str, float] = {}
    for step in steps:
        route = step.number("route_completion", wanted="a percentage of 0 to 100")
        if not before <= route <= LAST_ROUTE:
            fact = f"'route_completion' is {route:g} after {before:g}; it never falls and ends at 100"
            raise RewardError(f"{step.where}: {fact}")
        held, controls = controls, {**controls, **_numbers(step, "controls", names=_CONTROLS)}
        jump = any(abs(controls[name] - value) > _LARGEST_CHANGE for name, value in held.items())
        ticks.append(_tick(step, route=route, is_jump=jump))
        before = route
    return ticks


def _tick(step: Step, *, route: float, is_jump: bool) -> Tick:
    offset = step.number("lane_offset", wanted="a number of metres", default=0.0)
    ended_by = step.values.get("ended_by")
    if ended_by is not None and ended_by not in ENDINGS:
        raise step.bad("ended_by", wanted=f"one of {', '.join(ENDINGS)}")
    return Tick(
        route=route,
        on_route_lanes=not step.flag("outside_lanes"),
        overspeed_mps=_overspeed(step),
        ttc_violated=step.flag("ttc_violated"),
        uncomfortable=_broken(step),
        off_centre=None if step.flag("in_junction") else abs(offset) > LATERAL_M,
        ended_by=ended_by,
        speed_share=_speed_share(step),
        is_jump=is_jump,
    )


def _speed_share(step: Step) -> float:
    """Of the traffic's mean speed; 1 where the step does not say how fast the car is, nor the traffic."""
    traffic = step.number("traffic_speed", wanted="a speed in m/s", default=math.inf)
    if traffic == math.inf and step.values.get("speed") is None:
        return 1.0
    return speed_share(step.number("speed", wanted="a speed in m/s"), 0.0 if traffic == math.inf else traffic)


def _overspeed(step: Step) -> float:
    """Speed above the limit; 0 where the step has no limit."""
    limit = step.number("speed_limit", wanted="a speed in m/s", default=math.inf)
    return 0.0 if limit == math.inf else max(0.0, step.number("speed", wanted="a speed in m/s") - limit)


def _broken(step: Step) -> tuple[str, ...]:
    """Names of the comfort limits that are broken."""
    values = _numbers(step, "dynamics", names=tuple(COMFORT))
    return tuple(name for name, value in values.items() if not COMFORT[name][0] <= value <= COMFORT[name][1])


def _numbers(step: Step, key: str, *, names: Sequence[str]) -> dict[str, float]:
    """A mapping from some of the names to numbers; an empty one where the step has none."""
    found = step.values.get(key) or {}
    if not isinstance(found, Mapping) or not set(found) <= set(names):
        raise step.bad(key, wanted=f"a mapping with any of {', '.join(names)}")
    values = {str(name): as_number(value) for name, value in found.items()}
    if None in values.values():
        raise step.bad(key, wanted="a mapping to numbers")
    return {name: value for name, value in values.items() if value is not None}


def vehicle_states(
    sample: Sample, column: str, *, most_kmh: float, most_offset_m: float, most_still: int, history: int
) -> list[VehicleState]:
    """The states of an episode for VLM-RL, up to the one that fails.

    A state fails where it says so, above `most_kmh`, farther than `most_offset_m` from the lane's centre, and after
    `most_still` states below 1 km/h in a row. The spread of the distances is taken over the last `history` of them.
    """
    states: list[VehicleState] = []
    distances: list[float] = []
    still = 0
    for step in read_steps(sample, column, keys=_STATE_KEYS):
        speed = step.number("speed_kmh", wanted="a speed in km/h")
        offset = abs(step.number("offset_m", wanted="a distance in metres"))
        distances = [*distances, offset][-history:]
        still = still + 1 if speed < 1.0 else 0
        failed = step.flag("failed") or speed > most_kmh or offset > most_offset_m or still >= most_still
        angle = step.number("angle_deg", wanted="an angle in degrees")
        states.append(VehicleState(speed, offset, angle, _spread(distances), failed=failed))
        if failed:
            break
    return states


def _spread(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
