"""Answers of several places: moved from space to space in every form they have. Sizes are (width, height)."""

import dataclasses
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mmrl.data.rendered import MediaEntry
from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, DataError
from mmrl.scoring.geometry import check_space, to_model_space
from mmrl.scoring.gold import gold_geometry, gold_text, gold_texts
from mmrl.scoring.listings import parse_detections, parse_points, parse_spans, parse_tube, read_detections
from mmrl.scoring.places import each_place

SPACES = ("original_px", "model_px", "0..1", "0..100", "0..1000")
# In every space a part of the picture, which reaches to 1 in the smallest; some reach beyond it.
box = st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(1, 1280), st.integers(1, 720)).map(list)


def clip(*, source_size=(1280, 720), model_size=(280, 140), duration_s=12.0) -> MediaEntry:
    frames = torch.zeros(1, 3, model_size[1], model_size[0], dtype=torch.uint8)
    return MediaEntry("k", "video", frames, (1, 10, 20), 50, source_size, duration_s=duration_s)


def row(answer, space="original_px", **columns) -> Sample:
    return Sample("s1", "t", "video", (), answer=answer, answer_space=space, columns=columns, origin="t.jsonl:3")


def moved(answer, *, kind="box", source="original_px", box_space="model_px", time_space="0..100"):
    return to_model_space(row(answer, source), clip(), kind=kind, box_space=box_space, time_space=time_space).answer


def test_every_form_of_boxes():  # fault 72: 128 of 1280 pixels are 28 of 280
    numbers, seen = [128, 72, 640, 360], [28, 14, 140, 70]
    assert moved(numbers) == seen
    assert moved([numbers, numbers]) == [seen, seen]
    assert moved({"bbox_2d": numbers, "label": "dog 3"}) == {"bbox_2d": seen, "label": "dog 3"}
    assert moved([{"Position": numbers, "Confidence": 1}]) == [{"Position": seen, "Confidence": 1}]
    assert moved(json.dumps([{"bbox_2d": numbers, "label": "a"}])) == [{"bbox_2d": seen, "label": "a"}]
    assert moved(json.dumps({"boxes": numbers})) == {"boxes": seen}
    assert moved([]) == []


def test_points_polygons_and_masks():
    assert moved([[128, 72], [640, 360]], kind="point") == [[28, 14], [140, 70]]
    assert moved({"point_2d": [640, 360]}, kind="point", box_space="0..1000") == {"point_2d": [500, 500]}
    assert moved({"polygon": [[0, 0], [1280, 0], [1280, 720]]}) == {"polygon": [[0, 0], [280, 0], [280, 140]]}
    mask = {"size": [720, 1280], "counts": [0, 921600]}
    assert moved(mask) == {**mask, "extent": [280, 140]}
    assert moved({**mask, "size": [10, 10]}, source="0..1")["extent"] == [280, 140]
    once = to_model_space(row(mask), clip(), kind="box", box_space="model_px", time_space=None)
    assert to_model_space(once, clip(), kind="box", box_space="model_px", time_space=None) == once
    with pytest.raises(DataError, match=r"a mask of \(10, 10\) cells does not cover the picture"):
        moved({**mask, "size": [10, 10]})


def test_spans_and_moments():
    assert moved([[3, 6], [9, 12]], kind="time", source="seconds") == [[25, 50], [75, 100]]
    assert moved({"time": [3, 6]}, kind="time", source="seconds") == {"time": [25, 50]}
    assert moved({"times": [3, 6, 9]}, kind="time", source="seconds") == {"times": [25, 50, 75]}


TUBE = {"time": [3, 6], "boxes": {"3": [128, 72, 640, 360], "4.5": [0, 0, 1280, 720]}}


def test_a_tube_has_two_spaces():
    assert moved(TUBE, kind="tube", source="original_px at seconds") == {
        "time": [25, 50],
        "boxes": {"25": [28, 14, 140, 70], "38": [0, 0, 280, 140]},
    }
    frames = [{"time": 6, "objects": {"red car": [[128, 72, 640, 360]], "man": [0, 0, 1280, 720]}}]
    assert moved(frames, kind="tube", source="original_px at seconds") == [
        {"time": 50, "objects": {"red car": [[28, 14, 140, 70]], "man": [0, 0, 280, 140]}}
    ]
    sample = to_model_space(
        row(TUBE, "original_px at seconds"), clip(), kind="tube", box_space="0..1000", time_space="seconds"
    )
    assert sample.answer_space == "0..1000 at seconds"
    assert to_model_space(sample, clip(), kind="tube", box_space="0..1000", time_space="seconds") == sample


def test_actions_move_with_the_places_they_have():  # fault 72
    assert moved({"action": "click", "box": [128, 72, 640, 360]}) == {"action": "click", "box": [28, 14, 140, 70]}
    placeless = [{"action": "press_back"}, {"action": "type", "box": None, "input_text": "cat"}]
    assert moved(placeless) == placeless
    assert list(each_place(placeless, kind="box")) == []


def test_a_reward_can_know_the_size_of_the_picture_in_the_model_s_space():
    sizes = {"model_px": [280, 140], "0..1000": [1000, 1000], "original_px": [1280, 720]}
    for space, size in sizes.items():
        sample = to_model_space(row([1, 2, 3, 4]), clip(), kind="box", box_space=space, time_space=None)
        assert sample.columns["answer_extent"] == size
    timed = to_model_space(row([1, 2], "seconds"), clip(), kind="time", box_space=None, time_space="0..100")
    assert "answer_extent" not in timed.columns


def test_nothing_stays_in_its_old_space_unseen():
    with pytest.raises(DataError, match="its 'time' is a time, but the task's reward declares a box"):
        moved(TUBE)
    with pytest.raises(DataError, match="its 'bbox_2d' is a box, but the task's reward declares a time"):
        moved({"bbox_2d": [1, 2, 3, 4]}, kind="time", source="seconds")
    with pytest.raises(DataError, match="none of its keys 'rect' is one of bbox_2d"):
        moved([{"rect": [1, 2, 3, 4]}])
    with pytest.raises(DataError, match=r"two of its times become 25"):
        moved({"boxes": {"3": [1, 2, 3, 4], "3.01": [1, 2, 3, 4]}}, kind="tube", source="original_px at seconds")
    with pytest.raises(DataError, match="say neither box nor time"):
        moved([1, 2, 3, 4], kind="tube", source="original_px at seconds")
    with pytest.raises(ConfigError, match=r"two spaces, 'original_px at seconds' for one, not 'original_px'"):
        check_space("original_px", kind="tube")


@given(boxes=st.lists(box, max_size=4), source=st.sampled_from(SPACES), target=st.sampled_from(SPACES))
def test_a_list_moves_as_its_boxes_do(boxes, source, target):
    labelled = [{"bbox_2d": b, "label": str(i)} for i, b in enumerate(boxes)]
    alone = [moved(b, source=source, box_space=target) for b in boxes]
    assert moved(boxes, source=source, box_space=target) == alone
    together = moved(labelled, source=source, box_space=target)
    assert [d["bbox_2d"] for d in together] == alone
    assert [d["label"] for d in together] == [d["label"] for d in labelled]


@given(moments=st.lists(st.integers(0, 48), min_size=1, max_size=6, unique=True), boxes=st.lists(box, min_size=6))
def test_a_tube_there_and_back(moments, boxes):
    answer = {"boxes": {f"{m / 4:g}": b for m, b in zip(moments, boxes, strict=False)}, "time": [min(moments) / 4, 12]}
    sample = row(answer, "original_px at seconds")
    there = to_model_space(sample, clip(), kind="tube", box_space="0..100000000", time_space="0..100000000")
    back = to_model_space(there, clip(), kind="tube", box_space="original_px", time_space="seconds").answer
    assert {float(k): v for k, v in back["boxes"].items()} == {float(k): v for k, v in answer["boxes"].items()}
    assert back["time"] == pytest.approx(answer["time"])


def test_each_place():
    assert list(each_place([[1, 2], [3, 4]], kind="point")) == [("point", (1, 2)), ("point", (3, 4))]
    assert list(each_place(TUBE, kind="tube")) == [("time", (3, 6))]
    assert list(each_place({"polygon": [[0, 0], [9, 9]]}, kind="box")) == [("point", (0, 0)), ("point", (9, 9))]


def test_one_place_under_a_key_is_the_gold_of_a_reward_for_one():
    assert gold_geometry(row({"boxes": [1, 2, 3, 4]}), kind="box") == (1, 2, 3, 4)
    assert gold_geometry(row([{"bbox_2d": [1, 2, 3, 4], "label": "dog"}]), kind="box") == (1, 2, 3, 4)
    assert gold_geometry(row({"time": [1, 2]}), kind="time") == (1, 2)


def boxes_of(text):
    found = parse_detections(text)
    return None if found is None else [dataclasses.astuple(d) for d in found]


def test_detections_are_read_in_the_forms_models_write():
    dog = ((1, 2, 3, 4), "dog", None)
    assert boxes_of('[{"bbox_2d": [1, 2, 3, 4], "label": "dog"}]') == [dog]
    assert boxes_of('```json\n[{"bbox_2d": [1, 2, 3, 4], "label": "dog"}]\n```') == [dog]
    assert boxes_of("[{'Position': [1, 2, 3, 4], 'Confidence': 0.5}]") == [((1, 2, 3, 4), None, 0.5)]
    assert boxes_of("[[1, 2, 3, 4], [5, 6, 7, 8]]") == [((1, 2, 3, 4), None, None), ((5, 6, 7, 8), None, None)]
    assert boxes_of("1 2 3 4") == boxes_of('{"bbox_2d": [1, 2, 3, 4]}') == [((1, 2, 3, 4), None, None)]
    assert boxes_of("None") == boxes_of("[]") == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "two dogs",
        "[[1, 2, 3]]",
        '[{"bbox_2d": [1, 2, 3, "4"]}]',
        '[{"label": "dog"}]',
        "[[1, 2, 3, NaN]]",
        "{}",
        "[",
        '[{"bbox_2d": [1, 2, 3, 4], "label": 7}]',
        "[true, 1, 2, 3]",
        "[" * 5000,
        '{"bbox": [1, 2, 3, 1e999]}',
    ],
)
def test_no_list_of_boxes_is_guessed(text):  # fault 70
    assert parse_detections(text) is None


def test_points_spans_and_tubes_are_read():
    assert parse_points('[{"point_2d": [3, 4], "label": "x"}, {"point_2d": [5, 6]}]') == ((3, 4), (5, 6))
    assert parse_points("(3, 4)") == parse_points("[[3, 4]]") == ((3, 4),)
    assert parse_points("[3, 4, 5]") is None
    assert parse_spans("[(5.2, 10.4), (12, 15)]") == parse_spans("5.2 to 10.4\n12 to 15") == ((5.2, 10.4), (12, 15))
    assert parse_spans('{"time": [1, 2]}') == parse_spans("1s - 2s") == ((1, 2),)
    assert parse_spans("early; late") is None
    tube = parse_tube('{"time": [1, 2], "boxes": {"2": [0, 0, 1, 1], "1": [5, 5, 6, 6]}}')
    assert tube is not None and list(tube.boxes.items()) == [(1, (5, 5, 6, 6)), (2, (0, 0, 1, 1))]
    assert parse_tube('{"boxes": {"1": [0, 0, 1, 1], "1.0": [0, 0, 1, 1]}}') is None
    assert parse_tube('{"boxes": {"first": [0, 0, 1, 1]}}') is None
    assert read_detections([{"bbox_2d": (1, 2, 3, 4), "name": "dog"}]) is not None


def test_spans_beside_an_answer_move_and_the_answer_stays():
    answer = {"answer": "B", "spans": [[3, 6], [9, 12]]}
    seen = moved(answer, kind="time", source="seconds")
    assert seen == {"answer": "B", "spans": [[25, 50], [75, 100]]}
    assert gold_text(row(seen)) == "B"


def test_key_frames_beside_an_answer_move_and_the_answer_stays():
    answer = {"answer": "B", "frames": [{"time": 6, "objects": {"car": [[128, 72, 640, 360]]}}]}
    seen = moved(answer, kind="tube", source="original_px at seconds")
    assert seen == {"answer": "B", "frames": [{"time": 50, "objects": {"car": [[28, 14, 140, 70]]}}]}
    assert gold_text(row(seen)) == "B" and gold_texts(row({**seen, "answer": ["B", "C"]})) == ("B", "C")
