"""CaRL over episodes: what stays in force, what ends a plan, and the terms of a plan on scenes checked by hand."""

import doctest

import numpy as np
import pytest
import shapely

from mmrl.scoring import carl
from mmrl.scoring.carl import Tick, carl_steps, plan_ticks
from mmrl.scoring.driving_metrics import carl_reward
from mmrl.scoring.driving_scene import Agent, Scene

STRAIGHT = tuple((5.0 * k, 0.0) for k in range(1, 9))


def scene(**parts) -> Scene:
    given = {
        "dt": 0.5,
        "speed": 10.0,
        "drivable": shapely.box(-20, -6, 100, 6),
        "route": shapely.LineString([(-20, 0), (100, 0)]),
    }
    return Scene(**{**given, **parts})


def standing_at(x: float) -> Agent:
    return Agent((4.5, 2.0), np.array([[x, 0.0, 0.0]]))


def test_docstring_examples():
    result = doctest.testmod(carl)
    assert result.attempted > 0 and result.failed == 0


def test_a_violation_counts_for_500_ticks_and_no_longer():
    ticks = [Tick(float(k), ttc_violated=k == 1, uncomfortable=("jerk",) if k == 3 else ()) for k in range(1, 505)]
    steps = list(carl_steps(ticks))
    assert [s.ttc_violated for s in steps] == [True] * 500 + [False] * 4
    assert [s.uncomfortable for s in steps] == [0] * 2 + [1] * 500 + [0] * 2


def test_a_violation_starts_the_time_anew():
    ticks = [Tick(float(k), ttc_violated=k in (1, 3)) for k in range(1, 7)]
    assert [s.ttc_violated for s in carl_steps(ticks, sticky=3)] == [True] * 5 + [False]


def test_off_the_centre_counts_after_30_ticks_and_is_forgotten_tick_by_tick():
    ticks = [Tick(0.0, off_centre=True)] * 32 + [Tick(0.0)] * 3
    assert [s.off_centre for s in carl_steps(ticks)] == [False] * 30 + [True] * 2 + [True, False, False]


def test_nothing_counts_after_the_end():
    steps = list(carl_steps([Tick(1.0), Tick(2.0, ended_by="red_light"), Tick(9.0)], start=0.5))
    assert [carl_reward(step) for step in steps] == [0.5, 0.0]


def test_a_plan_ends_where_the_route_does_or_the_car_has_left_the_road():
    ended = plan_ticks(STRAIGHT, scene(route=shapely.LineString([(-20, 0), (20, 0)])), speed_limit=10)
    assert [t.ended_by for t in ended[:20]] == [None] * 19 + ["route_finished"]
    # The rear, 2.588 m behind the middle, leaves the road at 20 m at 22.588; 95 % of 5.176 m at 22.33.
    off = plan_ticks(STRAIGHT, scene(drivable=shapely.box(-20, -6, 20, 6)), speed_limit=10)
    assert [t.ended_by for t in off[:23]] == [None] * 22 + ["off_road"]
    assert [t.on_route_lanes for t in off[:22]] == [True] * 20 + [False] * 2


def test_the_penalised_end_wins_over_another_at_the_same_tick():
    # The front, 2.588 m ahead, meets the car whose rear is at 23.25 at tick 21, where the route ends too.
    ending = shapely.LineString([(-20, 0), (21, 0)])
    ticks = plan_ticks(STRAIGHT, scene(route=ending, agents=(standing_at(25.5),)), speed_limit=10)
    assert ticks[20].ended_by == "collision"


def test_the_time_to_collision_of_a_car_that_crosses():
    # It crosses the route at x = 20 at 2 s; 0.9 s before that its constant velocity shows the meeting.
    crossing = Agent((4.0, 2.0), np.array([[20.0, -10.0 + 2.5 * k, np.pi / 2] for k in range(9)]))
    ticks = plan_ticks(STRAIGHT, scene(agents=(crossing,)), speed_limit=10)
    first = next(number for number, tick in enumerate(ticks, start=1) if tick.ttc_violated)
    hit = next(number for number, tick in enumerate(ticks, start=1) if tick.ended_by == "collision")
    assert hit - first == 9


def test_a_car_that_stands_violates_no_time_to_collision():
    parts = {"speed": 0.0, "agents": (Agent((4.5, 2.0), np.array([[10.0, 0, np.pi], [7.5, 0, np.pi]])),)}
    ticks = plan_ticks([(0.0, 0.0)] * 8, scene(**parts), speed_limit=10)
    assert not any(tick.ttc_violated for tick in ticks)


def test_the_completion_never_falls():
    there_and_back = [(2.0, 0.0), (4.0, 0.0), (3.0, 0.0), (1.0, 0.0)]
    routes = [tick.route for tick in plan_ticks(there_and_back, scene(speed=4.0), speed_limit=10)]
    assert routes == sorted(routes) and routes[-1] == pytest.approx(max(routes)) and routes[-1] > 3.9


def test_moving_by_more_than_a_car_in_a_tick_is_a_collision_at_once():
    far = [(60.0 * k, 0.0) for k in range(1, 9)]
    assert plan_ticks(far, scene(), speed_limit=10) == [Tick(0.0, ended_by="collision")]
