"""Driving scores: every worked number of the methods, and the geometry on scenes that can be checked by hand."""

import doctest
import importlib
import math

import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from makers.scoring import answered

from mmrl.errors import ConfigError, RewardError
from mmrl.scoring import driving_metrics as dm
from mmrl.scoring import driving_scene as ds
from mmrl.scoring import trajectories as tr
from mmrl.scoring.driving_motion import Motion, rectangles
from mmrl.scoring.driving_rows import pdm_of, read_waypoints, scene_of
from mmrl.scoring.reward import check_machine, resolve_reward

ROAD = [[-20, -6], [100, -6], [100, 6], [-20, 6]]
ROW = {"speed": 10, "drivable": [ROAD], "route": [[-20, 0], [100, 0]], "agents": []}
STRAIGHT = tuple((5.0 * k, 0.0) for k in range(1, 9))
PATH = [(0.1, 0.1), (0.3, 0.1), (0.5, 0.1)]


@pytest.mark.parametrize("name", ["driving_metrics", "trajectories", "meta_actions"])
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(f"mmrl.scoring.{name}"))
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        ({}, 1),
        ({"progress": 0.6}, 0.83333),
        ({"progress": 0.8, "ttc": 0}, 0.5),
        ({"no_collision": 0.5, "progress": 0.9, "comfort": 0}, 0.39583),
        ({"no_collision": 0}, 0),
    ],
)
def test_pdms(terms, wanted):
    assert round(dm.pdm_score(dm.PdmTerms(**terms)), 5) == wanted


@pytest.mark.parametrize(
    ("terms", "wanted"),
    [
        ({"direction": 0.5, "progress": 0.8, "extended_comfort": 0}, 0.40625),
        ({"progress": 0.5, "ttc": 0, "lane_keeping": 0}, 0.40625),
    ],
)
def test_epdms(terms, wanted):
    assert dm.pdm_score(dm.PdmTerms(**terms), form="epdms") == pytest.approx(wanted)


def test_the_second_stage_is_weighted_by_nearness_to_the_end_of_the_plan():
    scenes = [((40, 0), 0.8), ((40, 0.5), 0.4)]
    assert dm.second_stage((40, 0), scenes) == pytest.approx(0.71092, abs=1e-6)
    assert dm.second_stage((40, 0.25), scenes) == pytest.approx(0.6)
    assert dm.second_stage((0, 0), scenes) == pytest.approx(0.6)


def test_what_the_human_driver_did_too_is_a_false_alarm():
    human = dm.PdmTerms(traffic_light=0, extended_comfort=0)
    filtered = dm.PdmTerms(traffic_light=0, ttc=0, extended_comfort=0).filtered_by(human)
    assert (filtered.traffic_light, filtered.ttc, filtered.extended_comfort) == (1, 0, 0)


def test_recogdrive():
    assert round(dm.pdm_score(dm.PdmTerms(progress=0.6), form="recogdrive"), 5) == 0.76471
    assert dm.denoising_weights(5) == pytest.approx([0.1296, 0.216, 0.36, 0.6, 1])
    rewards = np.array([0.9, 0.9, 0.5, 0.3])
    advantages = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-8)
    assert advantages.round(4).tolist() == [0.8333, 0.8333, -0.5, -1.1667]


@pytest.mark.parametrize(
    ("pdms", "characters", "reasons", "wanted"),
    [(0.9, 400, True, 7.5), (0.9, 1400, True, 6.3576), (0.9, 400, False, 9.0), (0, 0, True, -0.9301)],
)
def test_autovla(pdms, characters, reasons, wanted):
    assert dm.autovla_reward(pdms, characters=characters, reasons=reasons) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        ({}, 0.5),
        ({"overspeed_mps": 1.0}, 0.27578),
        ({"ttc_violated": True, "uncomfortable": 3}, 0.1875),
        ({"on_route_lanes": False}, 0.0),
        ({"ended_by": "collision"}, -0.5),
        ({"ended_by": "red_light"}, -0.5),
        ({"ended_by": "stop_sign"}, 0.5),
        ({"off_centre": True}, 0.25),
    ],
)
def test_carl(step, wanted):
    assert round(dm.carl_reward(dm.CarlStep(10.0, 10.5, **step)), 5) == wanted


@pytest.mark.parametrize(
    ("step", "rules", "wanted"),
    [
        ({"speed_share": 0.5}, {}, 0.5),
        ({"speed_share": 0.5}, {"minimum_speed": True}, 0.25),
        ({"is_jump": True}, {}, 0.5),
        ({"is_jump": True}, {"action_jump": True}, 0.25),
        ({}, {"form": "sum"}, (5 * 0.5 + 11 * 0.05) / 16),
        ({"ttc_violated": True}, {"form": "sum"}, (5 * 0.5 + 6 * 0.05) / 16),
        ({"overspeed_mps": 0.1}, {"form": "sum"}, (5 * 0.5 + 7 * 0.05) / 16),
        ({"uncomfortable": 1}, {"form": "sum"}, (5 * 0.5 + 9 * 0.05) / 16),
        ({"on_route_lanes": False}, {"form": "sum"}, 11 * 0.05 / 16),
        ({"off_centre": True}, {"form": "sum"}, (5 * 0.5 + 11 * 0.05) / 32),
        ({"ended_by": "collision"}, {"form": "sum"}, (5 * 0.5 + 11 * 0.05) / 16 - 1),
    ],
)
def test_carl_by_the_rules_that_are_off(step, rules, wanted):
    reward = dm.carl_reward(dm.CarlStep(10.0, 10.5, **step), dm.CarlRules(**rules), steps=2000)
    assert reward == pytest.approx(wanted)


def test_a_perfect_episode_of_any_length_sums_to_100():
    for count in (2000, 5000):
        step = dm.CarlStep(0.0, 100.0 / count)
        assert count * dm.carl_reward(step, dm.CarlRules("sum"), steps=count) == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("negative", "positive", "state", "wanted"),
    [
        (0.20, 0.21, (25, 0, 0, 0), 1.0),
        (0.22, 0.205, (25, 0.5, 9, 0.07), 0.27),
        (0.24, 0.20, (25, 0, 0, 0), 0.0),
        (0.24, 0.20, (0, 0, 0, 0), 1.0),
        (0.20, 0.21, (25, 0, 0, 0, True), -10.0),
        (0.24, 0.20, (35, 0, 0, 0), -0.4),
    ],
)
def test_vlm_rl(negative, positive, state, wanted):
    reward = dm.vlm_rl_reward(cos_negative=negative, cos_positive=positive, state=dm.VehicleState(*state))
    assert reward == pytest.approx(wanted)


def test_vlm_rl_speeding_can_be_bounded():
    limits = dm.VlmRlLimits(least_speed_reward=0.0)
    state = dm.VehicleState(35, 0, 0, 0)
    assert dm.vlm_rl_reward(cos_negative=0.24, cos_positive=0.2, state=state, limits=limits) == 0


def test_leaderboard_and_drivelm():
    assert dm.driving_score([(100, {})]) == 100
    assert dm.driving_score([(100, {"vehicle": 1})]) == 60
    assert dm.driving_score([(80, {"red_light": 2})]) == pytest.approx(39.2)
    assert dm.drivelm_final(gpt=100, language=1, match=100, accuracy=1) == pytest.approx(1.0)
    assert dm.drivelm_final(gpt=60, language=0.5, match=40, accuracy=0.7) == pytest.approx(0.56)


def test_closeness():
    at = [(0.0, 0.0), (1.0, 0.0)]
    for error, wanted in ((0, 1), (0.5, 0.6065), (2, 0.1353)):
        moved = [(x, error) for x, _ in at]
        assert round(dm.plan_closeness(moved, at, scale=1.0), 4) == wanted


def test_open_loop_distances_in_both_conventions():
    distances = np.array([0, 0.2, 0.4, 0.3, 0.2, 0.1])
    assert tr.l2_at(distances, dt=0.5) == pytest.approx({1: 0.2, 2: 0.3, 3: 0.1})
    assert tr.l2_until(distances, dt=0.5) == pytest.approx({1: 0.1, 2: 0.225, 3: 0.2})
    assert tr.displacement_errors(distances) == pytest.approx((0.2, 0.1))
    assert np.mean(list(tr.l2_at(distances, dt=0.5).values())) == pytest.approx(0.2)
    assert tr.horizon_steps(5, dt=0.3) == {}


@pytest.mark.parametrize(
    ("path", "distance", "wanted"),
    [
        (PATH, 0.0, 1.0),
        ([(x, y + 0.1) for x, y in PATH], 0.1, 0.96296),
        (PATH[::-1], 1.1854, 0.56094),
        ([(0.1, 0.1), (0.2, 0.1), (0.3, 0.1)], 0.26931, 0.90025),
        ([(0.1, 0.1), (0.1, 0.3), (0.1, 0.5)], 0.95838, 0.64502),
    ],
)
def test_vla_r1_paths(path, distance, wanted):
    found = tr.frechet(tr.vla_r1_costs(path, PATH))
    assert found == pytest.approx(distance, abs=5e-5)
    assert 0.9 * (1 - min(1, found / tr.VLA_R1_LIMIT)) + 0.1 == pytest.approx(wanted, abs=1e-5)
    assert round(tr.VLA_R1_LIMIT, 5) == 2.42987


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ([(0, 0), (1, 0), (2, 0)], (0, 0, 0)),
        ([(0, 1), (1, 1), (2, 1)], (1, 1, 1)),
        ([(2, 0), (1, 0), (0, 0)], (2, 0, 1.633)),
        ([(0, 0), (1, 0), (5, 0)], (3, 3, 1.7321)),
    ],
)
def test_path_metrics(path, wanted):
    answer = [(0, 0), (1, 0), (2, 0)]
    every = tr.distances(path, answer)
    found = (tr.frechet(every), tr.hausdorff(every), tr.rmse(tr.displacements(path, answer)))
    assert tuple(round(v, 4) for v in found) == wanted


paths = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6)


@given(paths, paths)
def test_frechet_is_symmetric_and_never_below_hausdorff(a, b):
    there, back = tr.distances(a, b), tr.distances(b, a)
    assert tr.frechet(there) == pytest.approx(tr.frechet(back))
    assert tr.frechet(there) >= tr.hausdorff(there) - 1e-12
    costs = tr.frechet(tr.vla_r1_costs(a, b))
    assert math.isfinite(costs) and costs == pytest.approx(tr.frechet(tr.vla_r1_costs(b, a)))
    assert tr.frechet(tr.vla_r1_costs(a, a)) == pytest.approx(0, abs=1e-6)


def test_a_car_in_its_footprint():
    [car] = rectangles(np.array([[1.0, 2.0, math.pi / 2]]), (4, 2))
    assert shapely.bounds(car).tolist() == pytest.approx([0, 0, 2, 4])


def test_motion_along_a_straight_line():
    motion = Motion(STRAIGHT, dt=0.5, speed=10)
    assert len(motion.time_S) == 41
    assert motion.speed_S == pytest.approx(np.full(41, 10.0))
    assert motion.heading_S == pytest.approx(np.zeros(41)) and motion.is_comfortable()


def test_a_bend_has_its_yaw_rate_and_lateral_acceleration():
    radius, speed = 20.0, 8.0
    turned = [speed * 0.5 * k / radius for k in range(1, 9)]
    motion = Motion([(radius * math.sin(a), radius * (1 - math.cos(a))) for a in turned], dt=0.5, speed=speed)
    middle = slice(10, 30)
    assert motion.dynamics["yaw_rate"][middle] == pytest.approx(speed / radius, abs=0.01)
    assert motion.dynamics["across"][middle] == pytest.approx(speed**2 / radius, abs=0.1)


def test_a_car_that_stands_keeps_its_heading():
    motion = Motion([(0.0, 0.0)] * 4, dt=0.5, speed=0.0)
    assert motion.heading_S.tolist() == [0] * 21


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(-60, 60), st.floats(-60, 60)), min_size=8, max_size=8))
def test_every_plan_has_terms_from_0_to_1(plan):
    agent = {"size": [4.5, 2], "poses": [[20, 0, 0], [25, 1, 0.1]]}
    found = pdm_of(tuple(plan), answered([list(p) for p in STRAIGHT], **{**ROW, "agents": [agent]}), form="pdms")
    assert all(0 <= value <= 1 for value in found.values())


def test_a_side_collision_is_our_fault_only_off_the_lane():
    beside = ds.Agent((4.5, 2.0), np.array([[5.0 * k, 3.0 - 0.25 * k, 0.0] for k in range(9)]))
    lane = shapely.box(-20, -2, 100, 2)
    own = {"dt": 0.5, "speed": 10.0, "drivable": shapely.box(-20, -6, 100, 6), "agents": (beside,)}
    scene = ds.Scene(route=shapely.LineString([(-20, 0), (100, 0)]), lanes=(lane, shapely.box(-20, 2, 100, 6)), **own)
    kept = ds.score_plan(STRAIGHT, scene, human=STRAIGHT)
    between = tuple((x, 1.2) for x, _ in STRAIGHT)
    left = ds.score_plan(between, scene, human=STRAIGHT)
    assert kept.no_collision == 1 and left.no_collision == 0


def test_collisions_of_waypoints():
    thing = [ds.Agent((2.0, 2.0), np.array([[12.6, 0.0, 0.0]]))]
    hits = ds.collides([(2.0, 0), (8.0, 0), (10.0, 0)], thing, size=(4.084, 1.85), shift=0.5)
    assert hits.tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("speed", "fast", "'speed' is text, not a speed in m/s"),
        ("drivable", [[[0, 0], [1, 1]]], "'drivable' is a list, not a list of areas"),
        ("route", None, "'route' is null, not a line"),
        ("ego_size", [4, -2], "'ego_size' is a list, not"),
        ("progress_bound", -1, "'progress_bound' is a number, not a number of metres"),
        ("previous_plan", [[1, 2]], "'previous_plan' is a list, not two or more waypoints"),
        ("agents", {}, "'agents' is a mapping, not a list of"),
        ("dt", "x", "'dt' is text, not a number of seconds"),
    ],
)
def test_a_bad_column_is_named(column, value, words):
    with pytest.raises(RewardError, match=r"rows\.jsonl:7 \(id=s1\): the column") as error:
        scene_of(answered(None, **{**ROW, column: value}), extended=False)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("objectives", "words"),
    [(["nocollision"], "no objective 'nocollision'; there are no_collision"), ([], "needs one or more objectives")],
)
def test_objectives_that_there_are_none_of_are_refused_at_start(objectives, words):
    reward = resolve_reward("plan_dominance")
    with pytest.raises(ConfigError, match=words):
        check_machine(reward, {"objectives": objectives}, timeout_s=10.0, where="rewards.tasks.t[0]")


def test_waypoints_are_near_finite_pairs():
    assert read_waypoints({"waypoints": [[1, 2, 0.5], [3, 4]]}) == ((1, 2), (3, 4))
    for value in ([[1e9, 0]], [[1, math.nan]], [], "x", [[1]], [[1, 2, "a"]]):
        assert read_waypoints(value) is None
