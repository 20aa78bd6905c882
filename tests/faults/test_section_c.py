"""Section C of the public faults: clips. One `mmrl check` finds every bad file."""

import numpy as np
import pytest
from makers.clips import ClipSpec, write_clip
from makers.command import Said, mmrl
from makers.openers import QWEN25, SMALL, LocalOpener
from makers.rows import write_jsonl
from makers.tiny_run import write_run

from mmrl.data.sample import MediaRef

COVERED = {
    32: ["unit/data/test_budget.py::test_more_frames_wanted_than_there_are"],
    33: ["faults/test_section_c.py::test_no_frames_is_a_configuration_error"],
    34: ["unit/data/test_decoder.py::test_short_and_odd_clips", "faults/test_section_c.py::test_short_clips"],
    35: ["unit/data/test_decoder.py::test_short_and_odd_clips", "faults/test_section_c.py::test_short_clips"],
    36: ["unit/data/test_decoder.py::test_a_reader_that_hangs_is_killed_and_only_its_job_fails"],
    37: ["unit/data/test_decoder.py::test_a_broken_tail_is_an_error_with_the_counts"],
    38: ["unit/data/test_video.py::test_no_clip_at_all", "faults/test_section_c.py::test_bad_clip"],
    39: ["unit/data/test_video.py::test_frames_are_those_asked_for"],
    40: ["unit/data/test_video.py::test_timelines"],
    41: ["unit/data/test_video.py::test_info_of_a_turned_clip"],
    42: ["unit/data/test_decoder.py::test_a_reader_that_decodes_nothing_is_not_replaced"],
    43: ["unit/data/test_decoder.py::test_one_full_frame_at_a_time_is_in_memory"],
    44: ["unit/data/test_decoder.py::test_media_in_memory"],
    45: ["unit/data/test_decoder.py::test_short_and_odd_clips"],
    46: ["unit/data/test_positions.py::test_times_are_cut_after_the_product"],
    47: ["unit/data/test_budget.py::test_sizes_do_not_depend_on_a_first_resize"],
    48: [
        "unit/data/test_readers.py::test_train_and_val_are_read_alike",
        "faults/test_section_c.py::test_bad_clip_of_val",
    ],
    49: ["unit/data/test_cache.py::test_missing_source_is_a_media_error_and_no_black_frame"],
    50: ["unit/data/test_preprocess.py::test_each_medium_once_however_often_it_is_named"],
    51: ["unit/data/test_cache.py::test_a_changed_clip_budget_is_another_entry"],
    52: ["faults/test_section_c.py::test_frames_stay_in_the_order_they_are_given"],
}

SHORT = {"one.mp4": 1, "three.mp4": 3}
BAD = {"empty.mp4": "the file is empty", "text.mp4": "no readable container", "cut.mp4": "no readable container"}


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> Said:
    """Training rows on short clips and on bad ones; the validation set has one of the bad ones too."""
    folder = tmp_path_factory.mktemp("clips")
    config = write_run(folder)
    for name, frames in SHORT.items():
        write_clip(folder / name, ClipSpec(frames=frames))
    whole = (folder / "0.mp4").read_bytes()
    (folder / "empty.mp4").touch()
    (folder / "text.mp4").write_text("no clip at all\n" * 9)
    (folder / "cut.mp4").write_bytes(whole[: len(whole) // 3])
    row = {"prompt": "<video>?", "answer": "a", "task": "t"}
    write_jsonl(folder / "train.jsonl", [{**row, "videos": [name]} for name in (*SHORT, *BAD)])
    write_jsonl(folder / "val.jsonl", [{**row, "videos": ["0.mp4"]}, {**row, "videos": ["empty.mp4"]}])
    return mmrl("check", config, "--media", "all")


@pytest.mark.parametrize("name", BAD)
def test_bad_clip(checked, name):  # fault 38
    number = len(SHORT) + list(BAD).index(name) + 1
    line = checked.line_with(f"bad_media train.jsonl:{number} (id=train:{number}): ")
    assert f"{name}: " in line and BAD[name] in line
    assert checked.code == 1


def test_bad_clip_of_val(checked):  # fault 48: the validation set is opened by the same code
    assert "empty.mp4: the file is empty" in checked.line_with("bad_media val.jsonl:2 (id=val:2): ")
    assert "problem: val held_out: 1 row is bad and data.bad_media is `error`" in checked.out


def test_short_clips(checked):  # faults 34, 35: 1 of 1 frame, 2 of 3
    row = checked.line_with("train train", "t 5").split("│")
    assert [cell.strip() for cell in row[2:5]] == ["5", "3", "2"]
    assert row[7].strip() == "1 / 1 / 2 / 2"


@pytest.mark.parametrize("value", ["0", "null", "-1", "1.5"])
def test_no_frames_is_a_configuration_error(tmp_path, value):  # fault 33
    said = mmrl("check", write_run(tmp_path), f"budgets.video.max_frames={value}", "--media", "none")
    assert said.code == 2
    assert said.line_with(f"override 'budgets.video.max_frames={value}': key 'budgets.video.max_frames' should be ")


def test_frames_stay_in_the_order_they_are_given():  # fault 52: a shuffled clip is seen shuffled
    frames = np.stack([np.full((56, 56, 3), 20 * n, np.uint8) for n in range(6)])
    order = [3, 0, 5, 1, 4, 2]
    opened = [
        LocalOpener().open(MediaRef("video", clip, source_fps=2.0), SMALL, QWEN25).frames_F3HW[:, 0, 0, 0].tolist()
        for clip in (frames, frames[order])
    ]
    assert opened == [[0, 20, 40, 60, 80, 100], [20 * n for n in order]]
