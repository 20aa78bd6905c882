"""Section B of the public faults: pixel budgets and pictures. One `mmrl check` finds every bad file."""

import numpy as np
import pytest
from makers.command import Said, mmrl
from makers.rows import write_jsonl
from makers.tiny_run import write_run
from PIL import Image

COVERED = {
    17: ["unit/data/test_budget.py::test_tiny_media_are_enlarged", "faults/test_section_b.py::test_tiny_pictures"],
    18: ["unit/data/test_pixels.py::test_tiny_pictures", "faults/test_section_b.py::test_tiny_pictures"],
    19: ["unit/data/test_budget.py::test_a_known_screen_and_photo_size"],
    20: ["faults/test_section_b.py::test_a_budget_that_nothing_uses_is_no_silent_budget"],
    21: ["unit/models/test_trained_with.py::test_a_checkpoint_is_used_as_it_was_trained"],
    22: ["unit/data/test_render.py::test_engine_ids_hold_one_placeholder_per_medium"],
    23: ["unit/data/test_budget.py::test_a_known_screen_and_photo_size"],
    24: ["unit/data/test_image.py::test_modes_become_rgb_on_white"],
    25: ["unit/data/test_image.py::test_16_bit_gray_keeps_its_range"],
    26: ["unit/data/test_image.py::test_the_last_axis_is_the_channel"],
    27: ["unit/data/test_image.py::test_exif_orientation_is_applied"],
    28: ["unit/data/test_image.py::test_truncated_file", "faults/test_section_b.py::test_bad_picture"],
    29: ["unit/data/test_image.py::test_over_limit_names_the_file"],
    30: ["unit/data/test_image.py::test_unicode_and_blanks_in_paths", "faults/test_section_b.py::test_tiny_pictures"],
    31: ["unit/data/test_cards.py::test_relative_paths_from_any_folder", "faults/test_section_b.py::test_bad_picture"],
}

TINY = [(26, 28), (332, 27), (24, 198), (23, 3), (1, 1)]
BAD = {
    "empty.png": "the file is empty",
    "cut.png": "image file is truncated",
    "page.png": "not a picture; it starts with b'<html>'",
    "clip.png": "not a picture; it starts with b",
    "line.png": "1x1000 pixels: one side is more than 200 times the other",
    "gone.png": "no such file: ",
    "images\\\\0.png": "it is written with backslashes",  # fault 31
}


def write_pictures(folder) -> None:
    for width, height in TINY:
        Image.fromarray(np.full((height, width, 3), 99, np.uint8)).save(folder / f"{width} x {height} 日本.png")
    good = (folder / "0.png").read_bytes()
    (folder / "empty.png").touch()
    (folder / "cut.png").write_bytes(good[: len(good) // 2])
    (folder / "page.png").write_bytes(b"<html>")
    (folder / "clip.png").write_bytes((folder / "0.mp4").read_bytes())
    Image.fromarray(np.zeros((1000, 1, 3), np.uint8)).save(folder / "line.png")


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> Said:
    folder = tmp_path_factory.mktemp("pictures of ünïcode")  # fault 30
    config = write_run(folder)
    write_pictures(folder)
    names = [f"{width} x {height} 日本.png" for width, height in TINY] + [name.replace("\\\\", "\\") for name in BAD]
    row = {"prompt": "<image>?", "answer": "a", "task": "t"}
    write_jsonl(folder / "train.jsonl", [{**row, "images": [name], "id": name} for name in names])
    return mmrl("check", config, "--media", "all", "data.val=[]")


@pytest.mark.parametrize("name", BAD)
def test_bad_picture(checked, name):  # faults 17, 28, 31
    number = len(TINY) + list(BAD).index(name) + 1
    assert BAD[name] in checked.line_with(f"bad_media train.jsonl:{number} (id=")
    assert f"problem: train train: {len(BAD)} rows are bad and data.bad_media is `error`" in checked.out
    assert checked.code == 1


def test_tiny_pictures(checked):  # faults 17, 18, 30: enlarged to at least 784 pixels, each a whole number of tokens
    row = checked.line_with("train train", "t 10").split("│")
    assert [cell.strip() for cell in row[2:5]] == ["12", "7", "5"]
    assert row[6].strip().split(" / ")[0] == "1"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("budgets.imgae={max_pixels: 9000}", "no medium has the budget class 'budgets.imgae'; did you mean 'image'?"),
        ("budgets.image.max_pixel=9000", "key 'budgets.image.max_pixel' is unknown; did you mean"),
        ("budgets.image.max_pixels=0", "key 'budgets.image.max_pixels' should be greater than 0, not 0"),
        ("budgets.image={min_pixels: 9000, max_pixels: 784}", "'budgets.image.min_pixels' (9000) is above"),
        ("budgets={'': {max_pixels: 9000}}", "'budgets' holds the key '', which is no name of a budget class"),
    ],
)
def test_a_budget_that_nothing_uses_is_no_silent_budget(tmp_path, override, words):  # fault 20
    said = mmrl("check", write_run(tmp_path), override, "--media", "none")
    assert said.code == 2
    assert said.line_with(words).split(": ", 1)[1].startswith(f"override {override!r}: ")


def test_a_class_of_its_own_is_only_noted_when_no_medium_has_it(tmp_path):
    said = mmrl("check", write_run(tmp_path), "budgets.driving={max_frames: 9}", "--media", "none")
    assert said.code == 0
    assert "no medium has the budget class 'budgets.driving'" in said.line_with("note: ")
