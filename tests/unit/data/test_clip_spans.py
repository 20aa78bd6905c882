"""Parts of clips: which frames, at which times, with every reader. Frames show their own index."""

import pytest
import torch
from makers.clips import ClipSpec, cut_file, shown_index, write_clip
from makers.media import BUDGET, open_here, read_one, write_frames
from makers.openers import QWEN25
from makers.readers import EACH

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.locate import MediaRules
from mmrl.data.opening import OpenJob, open_medium
from mmrl.errors import MediaError

ALL = BudgetClass(min_pixels=28 * 28, max_pixels=112 * 84, max_frames=100, sample_fps=100.0)


def span(path, start_s=None, end_s=None, *, reader="pyav", budget=ALL):
    ref = read_one({"video": str(path), "start_s": start_s, "end_s": end_s}, path.parent, kind="video")
    return open_here(ref, reader=reader, budget=budget)


def shown(media):
    return [shown_index(frame.permute(1, 2, 0).numpy()) for frame in media.frames_F3HW]


@pytest.mark.parametrize("reader", EACH)
def test_times_count_from_the_start_of_the_span(tmp_path, reader):
    path = write_clip(tmp_path / "v.mp4", ClipSpec(frames=40, start_s=2.0))  # its own clock does not matter
    media = span(path, 1.0, 3.0, reader=reader, budget=BUDGET)
    assert media.frame_indices == (10, 15, 20, 25) == tuple(shown(media))
    assert media.timestamps_s == pytest.approx((0.0, 0.5, 1.0, 1.5), abs=1e-6)
    assert (media.duration_s, media.source_fps, media.sample_fps) == (pytest.approx(2.0), 10.0, pytest.approx(2.0))
    whole = span(path, reader=reader)
    between = span(path, 0.95, 1.45, reader=reader)
    assert between.frame_indices == (10, 11, 12, 13)  # the qwen2 rule takes an even count of the five
    assert between.timestamps_s == pytest.approx((0.05, 0.15, 0.25, 0.35), abs=1e-6)
    assert torch.equal(between.frames_F3HW, whole.frames_F3HW[10:14])


@pytest.mark.parametrize("name", ["v.mkv", "v.webm"])
def test_rounded_times_do_not_lose_the_first_frame(tmp_path, name):
    codec = "libvpx-vp9" if name == "v.webm" else "libx264"
    path = write_clip(tmp_path / name, ClipSpec(frames=30, fps=30, codec=codec))
    media = span(path, 1 / 30, 0.5)  # 33.3 ms, stored as 33
    assert media.frame_indices == tuple(range(1, 15))


def test_open_ends(tmp_path):
    path = write_clip(tmp_path / "v.mp4", ClipSpec(frames=40))
    assert span(path, 3.0).frame_indices == tuple(range(30, 40)) and span(path, 3.0).duration_s == pytest.approx(1.0)
    assert span(path, None, 1.0).frame_indices == tuple(range(10))
    late = span(path, 3.0, 99.0)  # an end beyond the clip's is its end
    assert late.frame_indices == tuple(range(30, 40)) and late.duration_s == pytest.approx(1.0)
    whole = span(path, 0.0, 99.0)
    assert whole.frame_indices == tuple(range(40)) and whole.duration_s == pytest.approx(4.0)


def test_a_span_of_variable_rate_has_a_rate_of_its_own(tmp_path):  # fault 40
    times_s = (*(index / 10 for index in range(10)), *(1.0 + index for index in range(6)))
    path = write_clip(tmp_path / "v.mp4", ClipSpec(frames=16, times_s=times_s))
    slow = BudgetClass(min_pixels=28 * 28, max_pixels=112 * 84, min_frames=1, max_frames=100, sample_fps=1.0)
    media = span(path, 1.0, 5.0, budget=slow)
    assert media.frame_indices == (10, 11, 12, 13) and media.sample_fps == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("start_s", "end_s", "reason"),
    [
        (4.0, None, "start_s 4 lies beyond the end of the clip, which lasts 4 s"),
        (9.5, 12.0, "start_s 9.5 lies beyond the end of the clip, which lasts 4 s"),
        (1.01, 1.09, "no frame starts between 1.01 and 1.09 s; the last one before starts at 1 s"),
    ],
)
def test_spans_without_frames(tmp_path, start_s, end_s, reason):
    path = write_clip(tmp_path / "v.mp4", ClipSpec(frames=40))
    with pytest.raises(MediaError) as caught:
        span(path, start_s, end_s)
    assert str(caught.value) == f"{path}: {reason}"


def test_a_broken_clip_is_broken_in_every_part_and_counted_whole(tmp_path):  # faults 37, 42
    path = cut_file(write_clip(tmp_path / "cut.mp4", ClipSpec(frames=60, b_frames=0)), keep=0.9)
    with pytest.raises(MediaError, match=r"cut\.mp4: \d+ of 60 frames decode"):
        span(path, 1.0, 2.0)
    ref = read_one({"video": str(path), "start_s": 1.0, "end_s": 2.0}, tmp_path, kind="video")
    lenient = VideoSection(broken_tail="use_decoded")
    media = open_medium(OpenJob(ref, ALL, QWEN25), lenient)
    assert media.frame_indices == tuple(range(10, 20)) == tuple(shown(media)) and media.missing_frames > 0
    late = read_one({"video": str(path), "start_s": 5.9}, tmp_path, kind="video")
    with pytest.raises(MediaError, match=r"cut\.mp4: "):
        open_medium(OpenJob(late, ALL, QWEN25), lenient)


def test_a_part_of_a_clip_of_frames(tmp_path):
    write_frames(tmp_path / "f", 20)
    ref = read_one(
        {"frames": "f", "start_s": 1.0, "end_s": 2.0}, tmp_path, kind="video", rules=MediaRules(source_fps=5.0)
    )
    media = open_here(ref, budget=ALL)
    assert media.frame_indices == (5, 6, 7, 8) == tuple(shown(media))
    assert media.timestamps_s == pytest.approx((0.0, 0.2, 0.4, 0.6)) and media.duration_s == pytest.approx(1.0)
