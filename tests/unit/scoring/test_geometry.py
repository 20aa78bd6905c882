"""Spaces, conversion, overlaps. Sizes are (width, height)."""

import dataclasses
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import MediaRef, Sample
from mmrl.errors import ConfigError, DataError
from mmrl.scoring import geometry as g

SIZES = {"source_size": (1280, 720), "model_size": (280, 140)}
PLANE_SPACES = ("original_px", "model_px", "0..1", "0..100", "0..1000")
coordinate = st.floats(-2000, 2000, allow_nan=False)
box_values = st.tuples(coordinate, coordinate, coordinate, coordinate)
size = st.tuples(st.integers(1, 4000), st.integers(1, 4000))
span_values = st.tuples(st.floats(0, 1000), st.floats(0, 1000))


def entry(*, source_size=(1280, 720), model_size=(280, 140), duration_s=None) -> MediaEntry:
    frames = torch.zeros(1, 3, model_size[1], model_size[0], dtype=torch.uint8)
    return MediaEntry("k", "image", frames, (1, 10, 20), 50, source_size, duration_s=duration_s)


def boxed(answer, space="original_px", **columns) -> Sample:
    media = (MediaRef("image", Path("a.png")),)
    return Sample("s1", "box", "image", (), media, answer, space, columns, origin="t.jsonl:3")


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ("original_px", (128, 72, 640, 360)),
        ("model_px", (28, 14, 140, 70)),
        ("0..1", (0.1, 0.1, 0.5, 0.5)),
        ("0..1000", (100, 100, 500, 500)),
        ("0..999", (99.9, 99.9, 499.5, 499.5)),
    ],
)
def test_a_box_in_every_space(space, expected):  # fault 72
    assert g.convert_box((128, 72, 640, 360), "original_px", space, **SIZES) == pytest.approx(expected)


def test_points_and_times():
    assert g.convert_point((640, 360), "original_px", "0..1000", **SIZES) == (500.0, 500.0)
    assert g.convert_time((3.0,), "seconds", "0..1000", duration_s=12.0) == (250.0,)
    assert g.convert_time((250, 500), "0..1000", "seconds", duration_s=12.0) == (3.0, 6.0)


@given(box=box_values, a=st.sampled_from(PLANE_SPACES), b=st.sampled_from(PLANE_SPACES), source=size, model=size)
def test_conversion_there_and_back(box, a, b, source, model):
    sizes = {"source_size": source, "model_size": model}
    back = g.convert_box(g.convert_box(box, a, b, **sizes), b, a, **sizes)
    assert back == pytest.approx(box, rel=1e-9, abs=1e-9)


@given(a=box_values, b=box_values, from_=st.sampled_from(PLANE_SPACES), to=st.sampled_from(PLANE_SPACES))
def test_box_iou_is_symmetric_bounded_and_the_same_in_every_space(a, b, from_, to):
    iou = g.box_iou(a, b)
    assert 0 <= iou <= 1 + 1e-9
    assert iou == pytest.approx(g.box_iou(b, a))
    if min(a[2] - a[0], a[3] - a[1], b[2] - b[0], b[3] - b[1]) > 1:
        moved = [g.convert_box(x, from_, to, **SIZES) for x in (a, b)]
        assert g.box_iou(*moved) == pytest.approx(iou, abs=1e-6)
        assert g.box_iou(a, a) == pytest.approx(1)


@given(a=span_values, b=span_values)
def test_temporal_iou_is_symmetric_and_bounded(a, b):
    iou = g.temporal_iou(a, b)
    assert 0 <= iou <= 1 + 1e-9
    assert iou == pytest.approx(g.temporal_iou(b, a))
    assert g.temporal_iou(a, a) == (pytest.approx(1) if a[1] > a[0] else 0)


@pytest.mark.parametrize(
    ("a", "b", "iou"),
    [
        ((0, 0, 100, 100), (0, 0, 100, 50), 0.5),
        ((0, 0, 100, 100), (50, 0, 150, 100), 1 / 3),
        ((0, 0, 100, 100), (100, 0, 200, 100), 0.0),
        ((0, 0, 100, 100), (100, 100, 0, 0), 0.0),
        ((100, 100, 0, 0), (100, 100, 0, 0), 0.0),
        ((0, 0, 100, 100), (0, 0, 100, 49.9), 0.499),
        ((10, 10, 60, 60), (20, 20, 70, 70), 0.4705882),
        ((5, 5, 5, 9), (5, 5, 5, 9), 0.0),
    ],
)
def test_worked_box_ious(a, b, iou):
    assert g.box_iou(a, b) == pytest.approx(iou)


@pytest.mark.parametrize(
    ("a", "b", "iou"),
    [((10, 20), (15, 25), 1 / 3), ((10, 20), (30, 40), 0), ((10, 20), (10, 10), 0), ((0, 10), (3, 10), 0.7)],
)
def test_worked_temporal_ious(a, b, iou):
    assert g.temporal_iou(a, b) == pytest.approx(iou)


def test_writing_rounds_halves_up_and_keeps_decimals_where_the_space_needs_them():
    assert g.round_to_space((0.5, 1.5, 2.4, 2.6), "model_px") == (1, 2, 2, 3)
    assert g.round_to_space((12.3456,), "0..1000") == (12,)
    assert g.round_to_space((0.12345,), "0..1") == (0.123,)
    assert g.round_to_space((1.239, 7.0), "seconds") == (1.24, 7.0)
    assert g.format_geometry((12, 30, 44, 60), "box") == "12 30 44 60"
    assert g.format_geometry((-0.0001, 2.0), "point") == "0 2"
    assert g.format_geometry((1.24, 7.0), "time") == "1.24 7"


@pytest.mark.parametrize("name", ["pixels", "0..0", "0..-5", "1..10", "norm1000", ""])
def test_an_unknown_space_lists_the_known_ones(name):
    with pytest.raises(ConfigError, match=r"known: original_px, model_px, 0\.\.1"):
        g.parse_space(name)


def test_a_space_must_fit_the_kind():
    with pytest.raises(ConfigError, match="a box cannot be in the space 'seconds'"):
        g.check_space("seconds", kind="box")
    with pytest.raises(ConfigError, match="a time cannot be in the space 'model_px'"):
        g.check_space("model_px", kind="time")


def moved(sample, media_entry, kind="box", box_space="model_px", time_space="seconds"):
    return g.to_model_space(sample, media_entry, kind=kind, box_space=box_space, time_space=time_space)


def test_places_may_stay_between_the_grids_lines():
    """A small box of a large screen: on a grid of 1000 its edges would move by half a unit, a quarter of its width."""
    seen, spaces = entry(), {"box_space": "0..1000", "time_space": None}
    sample = boxed([640.3, 360.2, 642.86, 361.64])
    exact = g.to_model_space(sample, seen, kind="box", rounded=False, **spaces)
    assert exact.answer == pytest.approx([500.234375, 500.277777, 502.234375, 502.277777], abs=1e-5)
    assert g.to_model_space(exact, seen, kind="box", rounded=False, **spaces) == exact
    assert moved(sample, seen, box_space="0..1000").answer == [500, 500, 502, 502]


def test_answer_and_demonstration_move_together_and_only_once():
    sample = boxed([128, 72, 640, 360], demonstration=[130, 70, 640, 350], note="kept")
    once = moved(sample, entry())
    assert once.answer == [28, 14, 140, 70] and once.answer_space == "model_px"
    assert once.columns == {"demonstration": [28, 14, 140, 68], "note": "kept", "answer_extent": [280, 140]}
    assert moved(once, entry()) == once
    assert sample.columns["demonstration"] == [130, 70, 640, 350]


def test_text_answers_are_read_and_text_demonstrations_are_never_half_converted():
    once = moved(boxed("<answer>[128, 72, 640, 360]</answer>", demonstration="128 72 640 360"), entry())
    assert once.answer == once.columns["demonstration"] == [28, 14, 140, 70]
    told = boxed([28, 14, 140, 70], "model_px", demonstration="It is at 28 14 140 70.")
    assert moved(told, entry()).columns["demonstration"] == "It is at 28 14 140 70."
    with pytest.raises(DataError, match="demonstration 'Seen: 128 72 640 360' is not a box"):
        moved(boxed([128, 72, 640, 360], demonstration="Seen: 128 72 640 360"), entry())


def test_several_boxes_stay_a_list_of_boxes():
    two = moved(boxed([[0, 0, 640, 360], [640, 360, 1280, 720]]), entry(), box_space="0..1000")
    assert two.answer == [[0, 0, 500, 500], [500, 500, 1000, 1000]]


def test_a_span_in_seconds_becomes_a_share_of_the_clip():
    sample = dataclasses.replace(boxed([3.0, 6.0], "seconds"), task="span")
    assert moved(sample, entry(duration_s=12.0), kind="time", time_space="0..100").answer == [25, 50]


@pytest.mark.parametrize("answer", [[1, 2, 3], "left", None, [1, 2, 3, "x"], [[1, 2, 3, 4], [1, 2]]])
def test_an_answer_that_is_no_box_names_the_sample(answer):
    with pytest.raises(DataError, match=r"t\.jsonl:3 \(id=s1\): answer .* is not a box"):
        moved(boxed(answer), entry())


@pytest.mark.parametrize(
    ("answer", "space", "why"),
    [
        ([-50, -50, -10, -10], "original_px", r"outside the image, which reaches to \d+ \d+ in original_px"),
        ([500, 500, 600, 600], "0..100", "outside the image, which reaches to 100 100 in 0..100; is that the space of"),
        ([60, 60, 10, 10], "original_px", r"x1 <= x2 and y1 <= y2 \(not x, y, width, height\)"),
        ([float("nan"), 1, 2, 3], "original_px", "its numbers are not finite"),
        ([[1, 2, 3, 4], [0, 0, 1, float("inf")]], "original_px", "its numbers are not finite"),
    ],
)
def test_a_box_that_no_answer_could_meet_is_an_error_not_a_reward_of_0(answer, space, why):
    with pytest.raises(DataError, match=rf"t\.jsonl:3 \(id=s1\): answer .* is not a box: .*{why}"):
        moved(boxed(answer, space), entry())


def test_a_box_may_reach_beyond_the_picture_in_part():
    assert moved(boxed([-10, 50, 50, 150], "0..100"), entry()).answer == [-28, 70, 140, 210]


def test_a_time_on_a_still_names_the_sample():
    with pytest.raises(DataError, match="needs a clip with a duration"):
        moved(boxed([1.0, 2.0], "seconds"), entry(), kind="time", time_space="0..100")


def test_a_missing_space_names_the_key():
    with pytest.raises(ConfigError, match=r"task 'box' .*card's `answer_space`"):
        moved(boxed([1, 2, 3, 4], None), entry())
    with pytest.raises(ConfigError, match=r"`model\.box_space`"):
        moved(boxed([1, 2, 3, 4]), entry(), box_space=None)
