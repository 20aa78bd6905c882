"""Arithmetic on unit vectors, SGP-RL's and VLM-RL's worked numbers, steps of demonstrations: no encoder is needed."""

import doctest
import importlib
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmrl.scoring.demonstrations import combined, in_order, learn_steps, placed, separation, split_points, step_rewards
from mmrl.scoring.driving_metrics import VehicleState, vlm_rl_reward
from mmrl.scoring.similarities import contrast_score, goal_score, nearness, projected_goal, scaled, sgp_mix, worst
from mmrl.scoring.subjects import evenly


@pytest.mark.parametrize("name", ["similarities", "demonstrations", "encoders", "table_encoder", "subjects"])
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(f"mmrl.scoring.{name}"))
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(("cosine", "half"), [(1.0, 1.0), (0.0, 0.5), (-1.0, 0.0), (0.28, 0.64)])
def test_half_scale(cosine, half):
    assert scaled(cosine, "half") == pytest.approx(half)


def test_clipscore_and_raw():
    assert scaled(0.28, "clipscore") == pytest.approx(0.7) and scaled(-0.5, "clipscore") == 0.0
    assert scaled(-0.5, "raw") == -0.5
    assert [worst(scale) for scale in ("half", "raw", "clipscore")] == [0.0, -1.0, 0.0]


def test_sgp_mix_of_the_worked_cosines():
    text, image = scaled(0.28, "half"), scaled(0.6, "half")
    assert sgp_mix([(1.0, text)]) == pytest.approx(0.64)
    assert sgp_mix([(1.0, text), (1.0, image)]) == pytest.approx(1.44)
    assert sgp_mix([(1.0, text), (0.0, image), (0.5, 0.75)]) == pytest.approx(1.015)


@pytest.mark.parametrize(
    ("bad", "good", "state", "reward"),
    [
        (0.20, 0.21, VehicleState(25, 0, 0, 0), 1.0),
        (0.22, 0.205, VehicleState(25, 0.5, 9, 0.07), 0.27),
        (0.24, 0.20, VehicleState(25, 0, 0, 0), 0.0),
        (0.24, 0.20, VehicleState(0, 0, 0, 0), 1.0),
    ],
)
def test_language_goals_and_the_reward_that_stands_on_them_agree(bad, good, state, reward):
    """VLM-RL: the wanted speed is the contrast's share of 25 km/h."""
    assert vlm_rl_reward(cos_negative=bad, cos_positive=good, state=state) == pytest.approx(reward)
    wanted = 25 * contrast_score(cos_bad=bad, cos_good=good)
    free = VehicleState(wanted, 0, 0, 0)
    assert vlm_rl_reward(cos_negative=bad, cos_positive=good, state=free) == pytest.approx(1.0)


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_goal_forms_stay_in_their_bounds(seed, alpha):
    x, g, b = (v / np.linalg.norm(v) for v in np.random.default_rng(seed).normal(size=(3, 8)))
    assert 0 <= goal_score(x, form="clg", good_D=g, bad_D=b) <= 1
    assert 0 <= goal_score(x, form="lord", good_D=None, bad_D=b) <= 2
    assert -1 <= goal_score(x, form="roboclip", good_D=g, bad_D=None) <= 1
    assert -1 - 1e-9 <= projected_goal(x, g, b, alpha=alpha) <= 1 + 1e-9
    assert projected_goal(x, g, b, alpha=0.0) == pytest.approx(float(x @ g))
    assert projected_goal(g, g, b, alpha=alpha) == pytest.approx(1.0)
    assert -1 <= nearness(x, g, first_D=b) <= 1 and 0 <= nearness(x, g) <= 1


def test_a_first_frame_at_the_goal_leaves_nothing_to_cover():
    goal = np.array([1.0, 0.0])
    assert nearness(goal, goal, first_D=goal) == 0.0
    assert nearness(np.array([0.0, 1.0]), goal, first_D=goal) == -1.0


@pytest.mark.parametrize(
    ("numbers", "z"), [((1, 0.2, 0.1, 0.1), 3.8), ((1, 0.9, 0.3, 0.3), -0.1), ((0.5, 0.5, 0.2, 0.2), -0.4)]
)
def test_separation_of_features(numbers, z):
    assert float(separation(*(np.array(n) for n in numbers))) == pytest.approx(z)


@pytest.mark.parametrize(
    ("steps", "sum_"), [((1, 0, 0), 0.0), ((1, 1, 0), 2.0), ((1, 1, 1), 6.0), ((1, 0.5, 0.25), 2.0)]
)
def test_later_steps_weigh_more(steps, sum_):
    assert combined(steps) == sum_


def test_steps_are_found_where_features_change_and_each_has_its_frames():
    levels = np.repeat([0.0, 3.0, 1.0], [5, 2, 4])[:, None] + np.zeros((1, 3))
    assert split_points(levels, steps=3) == [0, 5, 7]
    with pytest.raises(ValueError, match="11 frames cannot be 6 steps of 2 frames"):
        split_points(levels, steps=6)


def test_learned_steps_are_told_in_order_from_other_frames():
    rng = np.random.default_rng(0)
    centres = np.eye(3, 40) * 4
    demos = [np.repeat(centres, 4, axis=0) + 0.1 * rng.normal(size=(12, 40)) for _ in range(2)]
    steps = learn_steps(demos, steps=3)
    seen = np.repeat(centres, 2, axis=0) + 0.1 * rng.normal(size=(6, 40))
    forward, backward = (in_order(step_rewards(steps, frames)) for frames in (seen, seen[::-1]))
    assert min(forward) > 0.6
    assert combined(backward) < 0.2 * combined(forward)
    assert combined(in_order(step_rewards(steps, seen[:2]))) < 0.2 * combined(forward)  # the first step alone


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 1000))
def test_placed_is_the_best_of_all_placements(frames, steps, seed):
    steps = min(frames, steps)
    rewards = np.random.default_rng(seed).integers(0, 5, (frames, steps)) / 4

    def worth(values) -> float:
        return sum(2.0**s * value for s, value in enumerate(values, start=1))

    best = max(worth(rewards[f, s] for s, f in enumerate(chosen)) for chosen in combinations(range(frames), steps))
    assert worth(placed(rewards)) == pytest.approx(best)
    kept = in_order(rewards)
    assert kept == sorted(kept, reverse=True) and combined(kept) >= combined(np.minimum.accumulate(placed(rewards)))


@given(st.integers(1, 50), st.integers(1, 20))
def test_evenly_keeps_the_ends(count, most):
    places = evenly(count, most)
    assert places == sorted(set(places)) and len(places) == min(count, most) and places[-1] == count - 1
    assert most == 1 or places[0] == 0
