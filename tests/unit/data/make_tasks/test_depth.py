"""Points in order of depth: derived again from the depth picture at the circles that the row shows."""

import numpy as np
import pytest
from makers.made_tasks import make, photos, rows_of, samples_of, scored
from makers.real_media import packaged
from PIL import Image

from mmrl.data.image import open_image
from mmrl.data.make_tasks.depth import RADIUS_PX, read_depth_m, separated_points
from mmrl.data.make_tasks.puzzle import UnusableError
from mmrl.errors import MediaError


def ramp_mm(width=600, height=400):
    """0.5 m at the left edge, 6.5 m at the right one."""
    return np.tile(np.linspace(500, 6500, width).astype(np.uint16), (height, 1))


@pytest.fixture
def folder(tmp_path):
    photos(tmp_path / "in", ("coffee.png",))
    Image.fromarray(ramp_mm()).save(tmp_path / "in" / "coffee_depth.png")
    return tmp_path / "in"


def test_the_answer_orders_the_drawn_circles_by_depth(folder, tmp_path):
    make("points-3d", folder, tmp_path / "out", epochs=3)
    for row in rows_of(tmp_path / "out"):
        shown, original = open_image(tmp_path / "out" / row["images"][0]), open_image(folder / "coffee.png")
        for x, y in row["points_px"]:
            assert tuple(shown[y - RADIUS_PX + 2, x]) == (255, 0, 0)
        changed = (shown != original).any(axis=2)
        assert changed.sum() <= 6 * np.pi * (RADIUS_PX + 1) ** 2
        numbers = [int(number) for number in row["answer"].split(", ")]
        depths_mm = [int(ramp_mm()[row["points_px"][n - 1][1], row["points_px"][n - 1][0]]) for n in numbers]
        assert depths_mm == sorted(depths_mm) and sorted(numbers) == [1, 2, 3, 4, 5, 6]
        assert min(np.diff(depths_mm)) > 200
        assert [round(depth * 1000) for depth in sorted(row["depths_m"])] == depths_mm


def test_gold_answers_score_one_and_others_low(folder, tmp_path):
    make("points-3d", folder, tmp_path / "out", epochs=2)
    one, two = samples_of(tmp_path / "out")
    assert scored(f"<answer>{one.answer}</answer>", one) == 1.0
    assert one.answer != two.answer and scored(two.answer, one) <= 0.2


def test_points_keep_their_distances():
    points = separated_points(ramp_mm() / 1000, (400, 600), pieces=6, rng=np.random.default_rng(0))
    for n, (x, y, depth) in enumerate(points):
        assert RADIUS_PX <= x < 600 - RADIUS_PX and RADIUS_PX <= y < 400 - RADIUS_PX
        for other_x, other_y, other_depth in points[:n]:
            assert np.hypot(x - other_x, y - other_y) >= 40 and abs(depth - other_depth) > 0.2


def test_depth_of_another_resolution_and_holes():
    depth = np.zeros((40, 60))
    depth[:, 30:] = np.linspace(1, 9, 30)  # nothing measured on the left half
    points = separated_points(depth, (400, 600), pieces=4, rng=np.random.default_rng(1))
    assert all(x >= 300 and depth[y // 10, x // 10] == d for x, y, d in points)


def test_a_wall_has_no_order_of_depth():
    with pytest.raises(UnusableError, match=r"only 1 points lie 40 pixels and 0.2 m apart, 6 needed"):
        separated_points(np.full((400, 600), 2.0), (400, 600), pieces=6, rng=np.random.default_rng(0))


def test_depth_files(tmp_path):
    Image.fromarray(np.array([[1000, 0]], np.uint16)).save(tmp_path / "d.png")
    assert read_depth_m(tmp_path / "d.png", scale=0.001).tolist() == [[1.0, 0.0]]
    np.save(tmp_path / "f.npy", np.array([[1.5, np.nan, np.inf]], np.float32))
    assert read_depth_m(tmp_path / "f.npy", scale=0.001).tolist() == [[1.5, 0.0, 0.0]]
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(MediaError, match="allow_pickle=False"):
        read_depth_m(tmp_path / "o.npy", scale=0.001)
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "rgb.png")
    with pytest.raises(MediaError, match=r"one channel of numbers, this has shape \(4, 4, 3\), uint8"):
        read_depth_m(tmp_path / "rgb.png", scale=0.001)


def test_pairs_lie_beside_each_other_or_in_folders(tmp_path):
    photos(tmp_path / "in" / "rgb", ("coffee.png", "rocket.jpg"))
    (tmp_path / "in" / "depth").mkdir()
    np.save(tmp_path / "in" / "depth" / "coffee.npy", ramp_mm() / 1000.0)
    made = make("points-3d", tmp_path / "in", tmp_path / "out")
    assert [row["source"] for row in rows_of(tmp_path / "out")] == ["rgb/coffee.png"]
    assert [skip["source"] for skip in made.skipped] == ["rgb/rocket.jpg"]
    assert "no depth beside it" in made.skipped[0]["reason"]


def test_a_real_rgbd_picture(tmp_path):
    """Disparities of Middlebury's motorcycle, which scikit-image ships, as depth: focal length x baseline over them."""
    photos(tmp_path / "in", ("motorcycle_left.png",))
    disparity = np.load(packaged("skimage", "data/motorcycle_disp.npz"))["arr_0"].astype(np.float64)
    depth = 994.978 * 0.193001 / (disparity + 31.086)
    np.save(tmp_path / "in" / "motorcycle_left_depth.npy", np.where(np.isfinite(disparity), depth, 0.0))
    make("points-3d", tmp_path / "in", tmp_path / "out", pieces=4)
    (row,) = rows_of(tmp_path / "out")
    near_to_far = [row["points_px"][int(number) - 1] for number in row["answer"].split(", ")]
    seen = [disparity[y, x] for x, y in near_to_far]
    assert seen == sorted(seen, reverse=True)  # what is near moves most between the two eyes
