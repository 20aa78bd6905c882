"""Clicks, boxes and actions on a screen: arithmetic of the GUI rewards, and their way through the spaces."""

import doctest
import importlib
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from makers.scoring import answered

from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.plugins import resolve_function
from mmrl.scoring import clicks, gui_actions, literals
from mmrl.scoring.geometry import to_model_space

BOX = (100, 100, 200, 140)
numbers = st.floats(-1e6, 1e6)
corners = st.tuples(numbers, numbers, st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
boxes = corners.map(lambda c: (c[0], c[1], c[0] + c[2], c[1] + c[3]))


@pytest.mark.parametrize("name", ["literals", "clicks", "gui_actions"])
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(f"mmrl.scoring.{name}"))
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    ("predicted", "point", "coverage"),
    [
        (BOX, 1.0, 1.0),
        ((110, 104, 210, 144), 0.961, 0.990),
        ((150, 120, 250, 160), 0.368, 0.779),
        ((100, 100, 150, 120), 0.779, 0.724),
    ],
)
def test_gui_g2(predicted, point, coverage):
    assert round(clicks.gaussian_point(predicted, BOX, alpha=0.5), 3) == point
    assert round(clicks.gaussian_coverage(predicted, BOX, alpha=0.5), 3) == coverage


@given(boxes, boxes)
def test_gaussians_are_shares_and_coverage_takes_both_boxes_alike(a, b):
    assert 0 <= clicks.gaussian_point(a, b, alpha=0.5) <= 1
    there, back = (clicks.gaussian_coverage(*pair, alpha=0.5) for pair in ((a, b), (b, a)))
    assert 0 <= there <= 1 + 1e-9 and there == pytest.approx(back, abs=1e-9)


@pytest.mark.parametrize(
    ("point", "wanted"), [((150, 120), 2.0), ((190, 130), 1.9989), ((500, 500), 0.8217), ((1000, 1000), 0.0)]
)
def test_se_gui(point, wanted):
    decay = clicks.centre_decay(point, BOX, extent=(1000, 1000), reach=None)
    assert round(clicks.in_box(point, BOX) + decay, 4) == wanted


@pytest.mark.parametrize(
    ("count", "rank", "wanted"),
    [(1, 1, 2.0), (3, 2, 1.408248), (4, 4, 1.25), (2, None, 0.5), (1, None, 0.0), (0, None, 0.0)],
)
def test_aepo(count, rank, wanted):
    assert round(1 + clicks.exploration_efficiency(count, rank), 6) == wanted


def test_rloo_of_a_hit_and_a_miss():
    hit, miss = (1 + clicks.exploration_efficiency(1, rank) for rank in (1, None))
    assert (hit - miss, miss - hit) == (2, -2)


@given(st.integers(1, 32), st.floats(0.001, 0.05))
def test_blind_guesses_are_worth_at_most_twice_one(count, chance):
    guesses = sum(chance * clicks.exploration_efficiency(count, rank) for rank in range(1, count + 1))
    assert guesses <= 2 * chance


def test_three_on_a_line():
    straight, wobbling, bent = (
        [(0, 0), (50, 50), (100, 100)],
        [(0, 0), (50, 50.5), (100, 100)],
        [(0, 0), (9, 0), (0, 9)],
    )
    for points, exact, flat in ((straight, True, True), (wobbling, False, True), (bent, False, False)):
        assert clicks.has_collinear_triple(points, flatness=0.0) is exact
        assert clicks.has_collinear_triple(points, flatness=0.01) is flat
    assert clicks.has_collinear_triple([(1, 2), (1, 2), (7, 9)], flatness=0.01)
    assert not clicks.has_collinear_triple([(0, 0), (1, 1)], flatness=0.01)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_the_points_says_nothing_about_lines(points, random):
    order = random.sample(points, len(points))
    assert clicks.has_collinear_triple(points, flatness=0.01) == clicks.has_collinear_triple(order, flatness=0.01)


def test_the_extent_comes_from_the_space_or_the_column():
    shares = Sample("s", "t", "gui", (), answer=[1, 2, 3, 4], answer_space="0..1000")
    assert clicks.answer_extent(shares) == (1000, 1000)
    assert clicks.answer_extent(answered([1, 2, 3, 4], answer_extent=[280, 140])) == (280, 140)
    with pytest.raises(RewardError, match=r"rows.jsonl:7 .*no column `answer_extent`"):
        clicks.answer_extent(answered([1, 2, 3, 4]))


def test_distance_to_a_point_of_the_answer():
    gold = gui_actions.GuiAction("click", point=(100, 101))
    near, far = (190, 201), (190, 221)
    assert round(math.dist(near, (100, 101)), 2) == 134.54 and gui_actions.is_at(near, gold, radius=140)
    assert math.dist(far, (100, 101)) == 150 and not gui_actions.is_at(far, gold, radius=140)


def test_f1_of_words():
    assert round(gui_actions.word_set_f1("shanghai mall", "shanghai shopping mall"), 6) == 0.8
    assert gui_actions.word_set_f1("weather today", "shanghai shopping mall") == 0
    assert gui_actions.word_set_f1("e", "hello") == 1 and gui_actions.word_f1("e", "hello") == 0


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "[" * 5000,
        "-" * 15000 + "1",
        "{'action': " * 3000,
        "9" * 10000,
        "x" * (literals.LIMIT + 1),
        "[1, 2" + ", 3" * literals.LIMIT,
        "\x00",
    ],
)
def test_text_that_is_no_literal_is_none_and_runs_nothing(text):
    assert literals.read_literal(text) is None


def test_numbers_are_finite_and_no_booleans():
    assert literals.as_numbers([1, True]) is None
    assert literals.as_numbers([math.inf]) is None
    assert literals.as_numbers([10**400]) is None


def seen(answer, *, space):
    """The sample after a screenshot of 1920 x 1080 was resized to 1280 x 720 for a model that writes in `space`."""
    pixels = torch.zeros(1, 3, 720, 1280, dtype=torch.uint8)
    screenshot = MediaEntry("k", "image", pixels, (1, 10, 20), 50, (1920, 1080))
    sample = Sample("s", "t", "gui", (), answer=answer, answer_space="original_px")
    return to_model_space(sample, screenshot, kind="box", box_space=space, time_space=None)


CLICKS = {"original_px": (975, 555), "model_px": (650, 370), "0..1000": (508, 514), "0..1": (0.508, 0.514)}


@pytest.mark.parametrize("space", CLICKS)
@pytest.mark.parametrize("written", CLICKS)
def test_a_click_counts_in_the_model_s_space_and_in_no_other(space, written):  # fault 72
    point = resolve_function("point_in_box", kind="rewards", default="score")
    action = resolve_function("ui_r1", kind="rewards", default="score")
    x, y = CLICKS[written]
    box = seen([960, 540, 990, 570], space=space)
    assert point(f"({x}, {y})", box) == float(space == written)
    told = f"<think>a</think><answer>[{{'action': 'click', 'coordinate': [{x}, {y}]}}]</answer>"
    act = seen({"action": "click", "box": [960, 540, 990, 570]}, space=space)
    assert action(told, act)["reward"] == (3 if space == written else 2)


def test_the_distance_to_the_centre_does_not_depend_on_the_space():  # fault 72
    score = resolve_function("se_gui", kind="rewards", default="score")
    decays = [
        score(f"({x}, {y})", seen([960, 540, 990, 570], space=space), official=True)["decay"]
        for space, (x, y) in CLICKS.items()
    ]
    assert decays == pytest.approx([decays[0]] * len(decays), abs=1e-5)
