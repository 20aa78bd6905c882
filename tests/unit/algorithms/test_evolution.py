"""The search over weights: bounds, repeatability, and that it finds a maximum."""

import math

from mmrl.algorithms.evolution import Evolution, Weights

BOUNDS = {"a": (0.01, 10.0), "b": (0.1, 1.0)}


def run(evolution: Evolution, count: int, objective) -> list[tuple[Weights, float]]:
    tried: list[tuple[Weights, float]] = []
    for number in range(count):
        weights = evolution.propose(number, tried)
        tried.append((weights, objective(weights)))
    return tried


def distance(weights: Weights) -> float:
    return -abs(math.log(weights["a"] / 3.0)) - abs(math.log(weights["b"] / 0.2))


def test_the_first_trial_is_the_start_and_all_are_within_bounds():
    tried = run(Evolution(BOUNDS, {"a": 1.0, "b": 1.0}, population=4, sigma=2.0), 40, distance)
    assert tried[0][0] == {"a": 1.0, "b": 1.0}
    for weights, _ in tried:
        assert all(low <= weights[name] <= high for name, (low, high) in BOUNDS.items())
    assert len({tuple(weights.values()) for weights, _ in tried[:4]}) == 4


def test_a_proposal_depends_on_earlier_generations_alone():
    evolution = Evolution(BOUNDS, {"a": 1.0, "b": 1.0}, seed=3)
    tried = run(evolution, 8, distance)
    assert evolution.propose(6, tried[:4]) == evolution.propose(6, tried) == tried[6][0]
    assert Evolution(BOUNDS, {"a": 1.0, "b": 1.0}, seed=4).propose(6, tried) != tried[6][0]


def test_without_width_children_are_crossings_of_the_better_half():
    evolution = Evolution(BOUNDS, {"a": 1.0, "b": 1.0}, population=4, sigma=0.0)
    tried = [({"a": float(n), "b": n / 10}, float(n)) for n in range(1, 4)] + [({"a": 9.0, "b": 0.9}, math.nan)]
    children = [evolution.propose(number, tried) for number in range(4, 8)]
    assert {child["a"] for child in children} | {child["b"] * 10 for child in children} == {2.0, 3.0}


def test_it_comes_near_the_maximum():
    best = []
    for seed in range(5):
        tried = run(Evolution(BOUNDS, {"a": 0.02, "b": 1.0}, population=6, seed=seed), 90, distance)
        best.append(max(score for _, score in tried))
    assert all(score > -0.3 for score in best)
    assert distance({"a": 0.02, "b": 1.0}) < -6
