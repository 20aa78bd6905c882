"""Makers of self-supervised puzzles: the answer is where the foreign pixels are, and nothing else changed."""

import numpy as np
import pytest

from mmrl.data.selfsupervised import (
    QUADRANTS,
    insert_segment,
    paste_patch_box,
    paste_patch_quadrant,
    random_crop,
    widened,
)

BLACK_84 = np.zeros((84, 84, 3), np.uint8)
WHITE_28 = np.full((28, 28, 3), 255, np.uint8)


def place_of(pixels: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(pixels.any(axis=2))
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


@pytest.mark.parametrize("quadrant", range(4))
@pytest.mark.parametrize("seed", range(5))
def test_the_patch_lies_inside_the_named_quadrant(quadrant, seed):
    pixels, letter = paste_patch_quadrant(BLACK_84, WHITE_28, quadrant=quadrant, rng=np.random.default_rng(seed))
    x1, y1, x2, y2 = place_of(pixels)
    assert letter == QUADRANTS[quadrant]
    assert (x2 - x1, y2 - y1) == (28, 28)
    assert (x1 >= 42, y1 >= 42) == (quadrant % 2 == 1, quadrant >= 2)
    assert x2 <= 42 + 42 * (quadrant % 2) and y2 <= 42 + 42 * (quadrant // 2)


@pytest.mark.parametrize(("cell", "box"), [(0, (0, 0, 28, 28)), (5, (56, 28, 84, 56)), (8, (56, 56, 84, 84))])
def test_the_box_is_where_the_patch_is(cell, box):
    pixels, stated = paste_patch_box(BLACK_84, WHITE_28, cell=cell)
    assert stated == box == place_of(pixels)


def test_cells_of_an_uneven_picture_tile_it():
    boxes = [paste_patch_box(np.zeros((50, 71, 3), np.uint8), WHITE_28, cell=n)[1] for n in range(9)]
    assert sum((x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in boxes) == 50 * 71


def test_the_segment_replaces_exactly_its_frames():
    clip, segment = np.zeros((24, 4, 4, 3), np.uint8), np.full((4, 4, 4, 3), 9, np.uint8)
    changed, span = insert_segment(clip, segment, start=8)
    assert span == (8, 12)
    assert np.flatnonzero(changed[:, 0, 0, 0]).tolist() == [8, 9, 10, 11]
    assert not clip.any()


@pytest.mark.parametrize("start", [-1, 21])
def test_a_segment_past_the_end_is_refused(start):
    with pytest.raises(ValueError, match="inside a clip of 24 frames"):
        insert_segment(np.zeros((24, 4, 4, 3), np.uint8), np.zeros((4, 4, 4, 3), np.uint8), start=start)


def test_frames_of_another_size_are_refused():
    with pytest.raises(ValueError, match="does not fit"):
        insert_segment(np.zeros((24, 4, 4, 3), np.uint8), np.zeros((4, 4, 5, 3), np.uint8), start=0)


def test_a_patch_larger_than_a_quadrant_is_refused():
    with pytest.raises(ValueError, match="does not fit a quadrant of 14x14"):
        paste_patch_quadrant(WHITE_28, np.zeros((15, 15, 3), np.uint8), quadrant=0, rng=np.random.default_rng(0))


def test_edges_move_outward_and_stop_at_the_limits():
    rng = np.random.default_rng(0)
    places = {widened((2, 0, 4, 2), step=1, limits=(6, 6), odds=0.5, rng=rng) for _ in range(400)}
    assert places == {(x1, 0, x2, y2) for x1 in (1, 2) for x2 in (4, 5) for y2 in (2, 3)}
    assert widened((5, 6), step=1, limits=(6,), odds=1.0, rng=rng) == (4, 6)


def test_a_crop_is_a_square_of_the_picture():
    crop = random_crop(np.full((40, 90, 3), 7, np.uint8), size=84, rng=np.random.default_rng(0))
    assert crop.shape == (84, 84, 3) and (crop == 7).all()
