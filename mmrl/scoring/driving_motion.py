"""A planned path as the motion of a car: states every 0.1 s, its footprints, and how comfortable it is.

All lengths in metres and angles in radians, in one frame: x ahead and y to the left of the car at time 0, which stands
at the origin with heading 0. A plan is a list of waypoints `x, y` at dt, 2 dt, ... seconds, two or more; it is driven
exactly (NAVSIM lets a controller follow it), along the cubic spline that begins with the car's speed.

Shape letters: S states, every 0.1 s from 0 to the plan's end; N poses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import shapely
from scipy.interpolate import CubicSpline
from scipy.signal import savgol_filter

from mmrl.scoring.listings import Point

STEP_S = 0.1
MOVING_MPS = 0.1
"""Below it a heading is not told from the direction of travel."""

_SMOOTH, _DERIVATIVE = 8, 15
COMFORT = {
    "along": (-4.05, 2.40),
    "across": (-4.89, 4.89),
    "jerk": (-8.37, 8.37),
    "along_jerk": (-4.13, 4.13),
    "yaw_rate": (-0.95, 0.95),
    "yaw_acceleration": (-1.93, 1.93),
}
"""nuPlan's limits: accelerations along and across the car in m/s2, jerks in m/s3, yaw in rad/s and rad/s2."""
_CONSISTENT = {"acceleration": 0.7, "jerk": 0.5, "yaw_rate": 0.1, "yaw_acceleration": 0.1}


class Motion:
    """States of the car along a plan, every 0.1 s."""

    def __init__(self, waypoints: Sequence[Point], *, dt: float, speed: float) -> None:
        points = np.concatenate([np.zeros((1, 2)), np.asarray(waypoints, float)])
        times = dt * np.arange(len(points))
        ends: Any = ((1, np.array([speed, 0.0])), "not-a-knot")
        spline = CubicSpline(times, points, bc_type=ends)
        self.time_S = STEP_S * np.arange(round(times[-1] / STEP_S) + 1)
        self.position_S2: np.ndarray = spline(self.time_S)
        self.velocity_S2: np.ndarray = spline(self.time_S, 1)
        self.acceleration_S2: np.ndarray = spline(self.time_S, 2)

    @cached_property
    def speed_S(self) -> np.ndarray:
        return np.hypot(*self.velocity_S2.T)

    @cached_property
    def heading_S(self) -> np.ndarray:
        """Direction of travel, unwrapped; a car that stands keeps the heading it had."""
        moving = self.speed_S > MOVING_MPS
        latest = np.maximum.accumulate(np.where(moving, np.arange(len(moving)), -1))
        direction_S = np.arctan2(self.velocity_S2[:, 1], self.velocity_S2[:, 0])
        return np.unwrap(np.where(latest >= 0, direction_S[latest], 0.0))

    def is_jumping(self, size: tuple[float, float]) -> bool:
        """Whether a car of this size moves by more than its length between two states."""
        return bool((self.speed_S * STEP_S > size[0]).any())

    def footprints(self, size: tuple[float, float], *, ahead_s: float = 0.0) -> np.ndarray:
        """Polygons (S,) of the car, moved on for some seconds at the speed and heading of each state."""
        direction_S2 = np.stack([np.cos(self.heading_S), np.sin(self.heading_S)], axis=1)
        centre_S2 = self.position_S2 + ahead_s * self.speed_S[:, None] * direction_S2
        return rectangles(np.column_stack([centre_S2, self.heading_S]), size)

    @cached_property
    def dynamics(self) -> dict[str, np.ndarray]:
        """Smoothed as in nuPlan: Savitzky-Golay filters, over 8 states for accelerations and 15 for derivatives."""
        cos_S, sin_S = np.cos(self.heading_S), np.sin(self.heading_S)
        (x_S, y_S), count = self.acceleration_S2.T, len(self.time_S)
        raw = np.stack([x_S * cos_S + y_S * sin_S, y_S * cos_S - x_S * sin_S, np.hypot(x_S, y_S)])
        along_S, across_S, total_S = raw @ _filter(count, window=_SMOOTH)
        slopes = np.stack([total_S, along_S, self.heading_S]) @ _filter(count, window=_DERIVATIVE, times=1)
        return {
            "along": along_S,
            "across": across_S,
            "acceleration": total_S,
            "jerk": slopes[0],
            "along_jerk": slopes[1],
            "yaw_rate": slopes[2],
            "yaw_acceleration": self.heading_S @ _filter(count, window=_DERIVATIVE, order=3, times=2),
        }

    def uncomfortable(self) -> dict[str, np.ndarray]:
        """Whether each of nuPlan's six limits is broken at each state, (S,) by the limit's name."""
        dynamics = self.dynamics
        return {name: (dynamics[name] <= low) | (dynamics[name] >= high) for name, (low, high) in COMFORT.items()}

    def is_comfortable(self) -> bool:
        return not any(broken_S.any() for broken_S in self.uncomfortable().values())

    def is_consistent_with(self, other: Motion) -> bool:
        """Whether both plans' dynamics differ by no more than EPDMS allows, as root mean squares over common states."""
        count = min(len(self.time_S), len(other.time_S))
        return all(
            np.sqrt(((self.dynamics[name][:count] - other.dynamics[name][:count]) ** 2).mean()) <= limit
            for name, limit in _CONSISTENT.items()
        )


@cache
def _filter(count: int, *, window: int, order: int = 2, times: int = 0) -> np.ndarray:
    """A Savitzky-Golay filter of `count` states, or a derivative by it, as a matrix to multiply with from the right."""
    width, every = min(window, count), np.eye(count)
    return np.asarray(savgol_filter(every, window_length=width, polyorder=order, deriv=times, delta=STEP_S, axis=0)).T


def rectangles(poses_N3: np.ndarray, sizes: np.ndarray | tuple[float, float]) -> np.ndarray:
    """Polygons (N,) around poses x, y, heading, of one length and width or of (N, 2); corners: front left, front right,
    rear right, rear left.
    """
    half_N2 = np.broadcast_to(np.asarray(sizes, float) / 2, (len(poses_N3), 2))
    cos_N, sin_N = np.cos(poses_N3[:, 2]), np.sin(poses_N3[:, 2])
    along_N2 = np.stack([cos_N, sin_N], axis=1) * half_N2[:, :1]
    across_N2 = np.stack([-sin_N, cos_N], axis=1) * half_N2[:, 1:]
    around = (along_N2 + across_N2, along_N2 - across_N2, -along_N2 - across_N2, across_N2 - along_N2)
    return np.asarray(shapely.polygons(poses_N3[:, None, :2] + np.stack(around, axis=1)))
