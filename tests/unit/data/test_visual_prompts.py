"""Marks on cached frames: which pixels change, and by how much."""

import pytest
import torch

from mmrl.data.visual_prompts import circled, darkened, noisy, numbered

GREY = torch.full((2, 3, 40, 60), 100, dtype=torch.uint8)


def changed(frames):
    assert frames.shape == GREY.shape and frames.dtype == torch.uint8
    assert (GREY == 100).all()
    return (frames != GREY).any(1)


def test_outside_of_boxes_is_dark():
    frames = darkened(GREY, [(10, 5, 30, 15), (50, 0, 60, 40)], strength=0.6)
    inside = torch.zeros(40, 60, dtype=torch.bool)
    inside[5:15, 10:30] = inside[:, 50:] = True
    assert (frames[:, :, inside] == 100).all() and (frames[:, :, ~inside] == 40).all()
    assert torch.equal(darkened(GREY, []), GREY)
    one = darkened(GREY, [(0, 0, 1, 2)], strength=1.0)
    assert (one == 100).sum() == 2 * 3 * 2 and (one[:, :, :2, 0] == 100).all()


def test_a_circle_touches_the_sides_of_its_box_and_leaves_its_corners_and_middle():
    marks = changed(circled(GREY, [(10, 5, 30, 25)]))
    rows, columns = marks[0].nonzero().unbind(1)
    assert (int(columns.min()), int(columns.max()), int(rows.min()), int(rows.max())) == (10, 29, 5, 24)
    assert not marks[:, 5, 10].any() and not marks[:, 15, 20].any()
    assert torch.equal(marks[0], marks[1])


def test_numbers_differ_by_frame_and_stay_in_their_corner():
    marks = changed(numbered(GREY))
    assert marks[0].any() and not torch.equal(marks[0], marks[1])
    assert not marks[:, :20].any() and not marks[:, :, :30].any()


def test_noise_has_the_level_and_is_the_seeds():
    frames = noisy(GREY, 0.1, seed=3)
    difference = frames.float() - 100
    assert difference.std().item() == pytest.approx(25.5, abs=0.8)
    assert abs(difference.mean().item()) < 1
    assert torch.equal(frames, noisy(GREY, 0.1, seed=3)) and not torch.equal(frames, noisy(GREY, 0.1, seed=4))
    assert torch.equal(noisy(GREY, 0.0, seed=3), GREY)
