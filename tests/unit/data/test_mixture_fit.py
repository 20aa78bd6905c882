"""Surrogates of scores over mixtures: MoDoMoDo's worked numbers, the simplex, and the commands."""

import json

import numpy as np
import pytest
from makers.command import mmrl
from makers.rows import write_jsonl

from mmrl.data.mixture_fit import RunRecord, fitted, project, seed_mixtures

WORKED = [((1, 0), 0.40), ((0, 1), 0.45), ((0.5, 0.5), 0.55), ((0.25, 0.75), 0.53), ((0.75, 0.25), 0.50)]


def records(points, names="ab"):
    return [RunRecord(dict(zip(names, map(float, w), strict=True)), {"s": score}) for w, score in points]


def test_the_worked_quadratic():
    surrogate = fitted(records(WORKED), form="quadratic", ridge=0.0)
    best = surrogate.best()
    assert best.round(3).tolist() == [0.447, 0.553]
    assert round(surrogate.score(best), 4) == 0.5488
    assert round(abs(surrogate.residuals_R).max(), 4) == 0.0037


def test_linear_scores_give_a_corner_and_concave_ones_the_inside():
    linear = records([((1, 0, 0), 0.2), ((0, 1, 0), 0.5), ((0, 0, 1), 0.3), ((1, 1, 1), 1 / 3)], names="abc")
    for form in ("linear", "quadratic"):
        assert fitted(linear, form=form, ridge=0.0).best().round(6).tolist() == [0.0, 1.0, 0.0]
    target = np.array([0.5, 0.3, 0.2])
    points = [tuple(mixture.values()) for mixture in seed_mixtures("abc")]
    concave = records([(w, 1 - float(((np.array(w) - target) ** 2).sum())) for w in points], names="abc")
    surrogate = fitted(concave, form="quadratic", ridge=0.0)
    assert surrogate.best() == pytest.approx(target, abs=1e-6)
    assert surrogate.score(target) == pytest.approx(1.0)


def test_the_best_point_is_on_the_simplex_and_none_of_a_grid_is_better():
    rng = np.random.default_rng(1)
    for _ in range(5):
        points = [
            (tuple(w), float(score)) for w, score in zip(rng.dirichlet(np.ones(3), 12), rng.random(12), strict=True)
        ]
        surrogate = fitted(records(points, names="abc"), form="quadratic", ridge=0.01)
        best = surrogate.best()
        assert best.sum() == pytest.approx(1) and (best >= 0).all()
        grid = [(i / 40, j / 40, 1 - (i + j) / 40) for i in range(41) for j in range(41 - i)]
        assert surrogate.score(best) >= max(map(surrogate.score, grid)) - 1e-9


def test_ridge_pulls_to_the_mean_of_the_scores():
    heavy = fitted(records(WORKED), form="quadratic", ridge=1e9)
    assert heavy.score((1, 0)) == pytest.approx(heavy.score((0.5, 0.5)), abs=1e-6)
    assert heavy.score((1, 0)) == pytest.approx(0.486, abs=1e-6)


def test_weights_of_any_scale_and_absent_datasets():
    scaled = [RunRecord({name: 10 * w for name, w in r.weights.items() if w}, r.scores) for r in records(WORKED)]
    assert fitted(scaled, form="quadratic", ridge=0.0).best().round(3).tolist() == [0.447, 0.553]


def test_the_nearest_point_of_the_simplex():
    assert project(np.array([0.2, 0.3, 0.5])).round(12).tolist() == [0.2, 0.3, 0.5]
    assert project(np.array([2.0, 0.0])).tolist() == [1.0, 0.0]


def lines(tmp_path, rows):
    return write_jsonl(tmp_path / "runs.jsonl", rows)


def test_the_commands_from_seeds_to_a_suggestion(tmp_path):
    said = mmrl("mixture", "seeds", "a,b,c")
    assert [list(json.loads(line)["weights"].values()) for line in said.out.splitlines()] == [
        *([1, 0, 0], [0, 1, 0], [0, 0, 1]),
        *([0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]),
        [0.333333] * 3,
    ]
    rows = [{"weights": {"a": w[0], "b": w[1]}, "scores": {"x": s - 0.1, "y": s + 0.1, "z": 0}} for w, s in WORKED]
    out = tmp_path / "mixture.json"
    said = mmrl("mixture", "fit", lines(tmp_path, rows), "--out", out, "--scores", "x,y")
    assert said.code == 0 and "largest residual 0.0037" in said.out
    said = mmrl("mixture", "suggest", out)
    assert said.out.splitlines() == ["a: 0.4471", "b: 0.5529", "predicted 0.5488; all alike 0.5474"]
    assert json.loads(mmrl("mixture", "suggest", out, "--json").out)["weights"] == {"a": 0.4471, "b": 0.5529}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"weights": {"a": 1}}], "runs.jsonl:1: a run is"),
        ([{"weights": {"a": 0}, "scores": {"x": 1}}], "runs.jsonl:1: weights are not negative and not all 0"),
        ([{"weights": {"a": 1}, "scores": {"x": 1}}, {"weights": {"a": 1}, "scores": {"y": 1}}], "2: no score 'x'"),
        ([], "holds no run"),
    ],
)
def test_bad_records_are_named(tmp_path, rows, message):
    said = mmrl("mixture", "fit", lines(tmp_path, rows), "--out", tmp_path / "m.json")
    assert said.code == 2 and message in said.err
    assert mmrl("mixture", "suggest", lines(tmp_path, rows)).code == 2
