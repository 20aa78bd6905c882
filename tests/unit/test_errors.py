"""Suggestions: typos find their name, other words find none."""

import pytest

from mmrl.errors import did_you_mean, nearest
from mmrl.plugins import shipped_names


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("choise", "choice"),
        ("chioce", "choice"),
        ("Choice", "choice"),
        ("box_io", "box_iou"),
        ("boxiou", "box_iou"),
        ("temporal-iou", "temporal_iou"),
        ("numerical", "numeric"),
        ("number", "numeric"),
        ("maths", "math"),
        ("ted", "teds"),
        ("rotate", "rotation"),
        ("rotaton", "rotation"),
        ("otation", "rotation"),
        ("ocr-wer", "ocr_wer"),
        ("exact_match", "exact_text"),
        ("detections", "detection"),
        ("tracker", "tracking"),
        ("grounded", "grounding"),
        ("point_in_bbox", "point_in_box"),
        ("waypoint", "waypoints"),
    ],
)
def test_typos_of_rewards_find_them(written, name):
    assert nearest(written, shipped_names("rewards")) == name


@pytest.mark.parametrize(
    "written",
    ["captions", "caption", "summary", "translation", "accuracy", "length", "rouge", "bleu", "counting", "reasoning"],
)
def test_other_words_find_no_reward(written):
    assert did_you_mean(written, shipped_names("rewards")) == ""


@pytest.mark.parametrize(
    ("written", "known", "name"),
    [
        ("alfa", ["thinking", "alpha", "decay_steps"], "alpha"),
        ("bax", ["box", "quiz"], "box"),
        ("sead", ["seed", "stages"], "seed"),
        ("max_pixel", ["min_pixels", "max_pixels"], "max_pixels"),
        ("x", [], None),
        ("", ["box"], None),
    ],
)
def test_short_names_and_empty_ones(written, known, name):
    assert nearest(written, known) == name
