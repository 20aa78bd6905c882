"""Puzzles of pictures: each label is derived again from the pixels, and solves the puzzle."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers.made_tasks import make, photos, rows_of, samples_of, scored
from makers.scoring import answered

from mmrl.data.image import open_image
from mmrl.data.make_tasks.kinds import KINDS, permutation_chance
from mmrl.data.make_tasks.pictures import ANGLES, QUADRANT_NAMES, simclr_view
from mmrl.data.make_tasks.puzzle import TaskOptions
from mmrl.data.selfsupervised import cut_tiles, jigsaw_spans, join_tiles, piece_numbers, quadrant_crop


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return photos(tmp_path_factory.mktemp("photos"))


def test_the_label_says_where_each_piece_is():  # worked: Visual Jigsaw
    assert piece_numbers([2, 0, 3, 1]) == [2, 4, 1, 3]


@given(st.permutations(range(7)))
def test_reading_the_pieces_by_the_label_restores_their_order(order):
    assert [order[number - 1] for number in piece_numbers(order)] == list(range(7))


@given(st.integers(20, 60), st.integers(20, 60), st.integers(1, 5), st.integers(1, 5))
def test_tiles_join_to_the_middle_of_the_picture(height, width, rows, columns):
    picture = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    joined = join_tiles(cut_tiles(picture, rows=rows, columns=columns), columns=columns)
    top, left = (height % rows) // 2, (width % columns) // 2
    assert np.array_equal(joined, picture[top : top + joined.shape[0], left : left + joined.shape[1]])
    assert height - joined.shape[0] < rows and width - joined.shape[1] < columns


@given(st.integers(70, 300), st.integers(70, 300), st.integers(0, 3), st.integers(0, 99))
def test_a_crop_stays_in_its_quadrant(width, height, quadrant, seed):
    x1, y1, x2, y2 = quadrant_crop((width, height), quadrant=quadrant, rng=np.random.default_rng(seed))
    right, down = quadrant % 2, quadrant // 2
    assert right * (width // 2) <= x1 and x2 <= (right + 1) * (width // 2)
    assert down * (height // 2) <= y1 and y2 <= (down + 1) * (height // 2)
    assert 28 <= x2 - x1 <= 0.8 * (width // 2) and 28 <= y2 - y1 <= 0.8 * (height // 2)


def test_a_quadrant_without_room_is_refused():
    with pytest.raises(ValueError, match="a quadrant side of 34 pixels has no room for a crop of 28"):
        quadrant_crop((69, 200), quadrant=0, rng=np.random.default_rng(0))


def test_frames_are_dropped_at_the_start_and_clips_trimmed():
    spans = jigsaw_spans(1007, pieces=6)  # 47 frames go, 160 each, 16 at each end
    assert spans[0] == range(47 + 16, 47 + 160 - 16) and spans[5] == range(47 + 816, 1007 - 16)
    assert {len(span) for span in spans} == {128}
    assert jigsaw_spans(59, pieces=6) == []


def test_tiles_put_in_the_answers_order_are_the_picture(folder, tmp_path):
    make("image-jigsaw", folder, tmp_path / "out", epochs=3)
    rows = rows_of(tmp_path / "out")
    assert len(rows) == 12
    for row in rows:
        tiles = [open_image(tmp_path / "out" / path) for path in row["images"]]
        solved = join_tiles([tiles[int(number) - 1] for number in row["answer"].split(",")], columns=3)
        original = open_image(folder / row["source"])
        assert np.array_equal(solved, join_tiles(cut_tiles(original, rows=3, columns=3), columns=3))
    orders = [tuple(row["order"]) for row in rows if row["source"] == "coffee.png"]
    assert len(set(orders)) == 3  # each version is shuffled anew, and all show the same files
    assert {path for row in rows for path in row["images"]} == {path for row in rows[:4] for path in row["images"]}


def test_a_grid_that_is_no_square(folder, tmp_path):
    make("image-jigsaw", folder, tmp_path / "out", grid=(1, 4))
    assert all(len(row["images"]) == 4 and "1 rows of 4" in row["problem"] for row in rows_of(tmp_path / "out"))


def test_turning_back_by_the_answer_restores_the_picture(folder, tmp_path):
    make("rotation", folder, tmp_path / "out", epochs=4)
    rows = rows_of(tmp_path / "out")
    for row in rows:
        original, turned = (open_image(tmp_path / "out" / path) for path in row["images"])
        fits = [
            a
            for a in ANGLES
            if (back := np.rot90(turned, -a // 90)).shape == original.shape and (back == original).all()
        ]
        assert fits == [int(row["answer"])]
    assert set(Counter(row["answer"] for row in rows).values()) == {4}  # balanced exactly


def test_the_crop_is_found_in_the_named_quadrant_only(folder, tmp_path):
    make("position", folder, tmp_path / "out", epochs=2)
    rows = rows_of(tmp_path / "out")
    for row in rows:
        picture, crop = (open_image(tmp_path / "out" / path) for path in row["images"])
        (x, y), *others = places_of(crop, picture)
        assert others == [] and [x, y] == row["crop_px"][:2]
        quadrant = 2 * (y >= picture.shape[0] // 2) + (x >= picture.shape[1] // 2)
        assert QUADRANT_NAMES[quadrant] == row["answer"]
    assert set(Counter(row["answer"] for row in rows).values()) == {2}


def places_of(patch, picture):
    """(x, y) of every exact copy of the patch."""
    row = np.ascontiguousarray(patch[0]).tobytes()
    found = []
    for y in range(picture.shape[0] - patch.shape[0] + 1):
        line, start = picture[y].tobytes(), -1
        while (start := line.find(row, start + 1)) >= 0:
            x = start // 3
            if start % 3 == 0 and np.array_equal(picture[y : y + patch.shape[0], x : x + patch.shape[1]], patch):
                found.append((x, y))
    return found


def test_the_right_patch_fills_the_framed_cell(folder, tmp_path):
    make("masked-patch", folder, tmp_path / "out", epochs=2)
    rows = rows_of(tmp_path / "out")
    for row in rows:
        masked, *patches = (open_image(tmp_path / "out" / path) for path in row["images"])
        original = cut_tiles(open_image(folder / row["source"]), rows=4, columns=4)
        cell = framed_cell(masked)
        fits = [n for n, patch in enumerate(patches) if np.array_equal(patch, original[cell])]
        assert ["ABCD"[n] for n in fits] == [row["answer"]]
        shown = cut_tiles(masked, rows=4, columns=4)
        hidden = [n for n in range(16) if not np.array_equal(shown[n], original[n])]
        assert sorted(hidden) == sorted(row["cells"])  # no patch that is offered can be found in the picture
    assert set(Counter(row["answer"] for row in rows).values()) == {2}


def framed_cell(masked):
    """The cell, of 4 x 4, whose upper edge is red."""
    tiles = cut_tiles(masked, rows=4, columns=4)
    (cell,) = [n for n, tile in enumerate(tiles) if (tile[0] == (255, 0, 0)).all()]
    return cell


def test_views_of_one_picture_or_of_two(folder, tmp_path):
    make("contrastive", folder, tmp_path / "out", epochs=2)
    rows = rows_of(tmp_path / "out")
    assert Counter(row["answer"] for row in rows) == {"positive": 4, "negative": 4}
    for row in rows:
        first, second = row["sources"]
        assert (first == second) == (row["answer"] == "positive")
        views = [open_image(tmp_path / "out" / path) for path in row["images"]]
        assert all(view.shape == (224, 224, 3) for view in views) and not np.array_equal(*views)


def test_a_view_comes_from_its_picture_and_from_its_seed():
    red, blue = (np.full((300, 200, 3), color, np.uint8) for color in ((255, 0, 0), (0, 0, 255)))
    first, again = (simclr_view(red, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, simclr_view(blue, np.random.default_rng(3)))


@pytest.mark.parametrize("kind", ["image-jigsaw", "rotation", "position", "contrastive", "masked-patch"])
def test_gold_answers_score_one_and_others_low(folder, tmp_path, kind):
    make(kind, folder, tmp_path / "out", epochs=2)
    samples = samples_of(tmp_path / "out")
    assert all(scored(f"<answer>{sample.answer}</answer>", sample) == 1.0 for sample in samples)
    others = [
        scored(f"<answer>{b.answer}</answer>", a) for a, b in itertools.permutations(samples, 2) if a.answer != b.answer
    ]
    assert others and max(others) <= 0.2


@pytest.mark.parametrize(("task", "items"), [("image-jigsaw", "123456"), ("clip-order", "ABC"), ("clip-order", "ABCD")])
def test_the_stated_chance_is_the_mean_over_all_orders(task, items):
    sample = answered(", ".join(items), task=task)
    guesses = [scored(", ".join(guess), sample) for guess in itertools.permutations(items)]
    assert np.mean(guesses) == pytest.approx(permutation_chance(len(items)))


def test_chance_depends_on_the_pieces():
    assert permutation_chance(9) == pytest.approx(0.022224, abs=1e-6)
    assert KINDS["image-jigsaw"].chance(TaskOptions(grid=(3, 3))) == "0.022"
    assert KINDS["masked-patch"].chance(TaskOptions(pieces=5)) == "0.2"


def test_small_and_flat_pictures_are_skipped_with_the_reason(tmp_path):
    from PIL import Image

    photos(tmp_path / "in", ("coffee.png",))
    Image.fromarray(np.full((200, 83, 3), 9, np.uint8)).save(tmp_path / "in" / "small.png")
    Image.fromarray(np.full((200, 200, 3), 9, np.uint8)).save(tmp_path / "in" / "flat.png")
    (tmp_path / "in" / "broken.png").write_bytes(b"no picture")
    made = make("image-jigsaw", tmp_path / "in", tmp_path / "out")
    reasons = {skip["source"]: skip["reason"] for skip in made.skipped}
    assert reasons["small.png"] == "83x200 pixels, this kind needs at least 84x84"
    assert "not a picture" in reasons["broken.png"] and made.failed == 1
    assert reasons["flat.png"] == "two of its tiles are the same picture, so their order cannot be seen"
    assert {row["source"] for row in rows_of(tmp_path / "out")} == {"coffee.png"}
    turned = make("rotation", tmp_path / "in", tmp_path / "turned")
    assert any("looks the same when turned" in skip["reason"] for skip in turned.skipped)
    flat = make("position", tmp_path / "in", tmp_path / "position")
    assert any("shows nothing: 20 crops of one colour" in skip["reason"] for skip in flat.skipped)
    masked = make("masked-patch", tmp_path / "in", tmp_path / "masked")
    assert any(skip["reason"].startswith("only 0 of its cells") for skip in masked.skipped)
