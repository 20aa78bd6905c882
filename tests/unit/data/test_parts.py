"""Clips read by several threads: the same bits as by one, over readers and containers; errors; idle cores."""

import threading
import time
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from makers.clips import ClipSpec, shown_index, write_clip
from makers.openers import QWEN25
from makers.readers import EACH

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenJob, open_medium
from mmrl.data.parts import read_parts
from mmrl.data.sample import MediaRef
from mmrl.data.shared_count import SharedCount
from mmrl.data.video import DivisibleClip, open_clip
from mmrl.data.video_readers import timeline
from mmrl.errors import MediaError

SPEC = ClipSpec(frames=240, gop=20, b_frames=3)
VFR = tuple(np.cumsum([0.0] + [0.05, 0.05, 0.4, 0.1, 0.033] * 48).round(4).tolist()[:240])
CLIPS = {
    "closed.mp4": SPEC,
    "odd_times.mp4": replace(SPEC, times_s=VFR),
    "odd_times.mkv": replace(SPEC, times_s=VFR),
    "open_groups.mp4": replace(SPEC, open_gop=True),
    "open_groups.ts": replace(SPEC, open_gop=True),
    "hidden.mp4": replace(SPEC, hidden=5),
    "hevc.mkv": replace(SPEC, codec="libx265"),
    "part2.mp4": replace(SPEC, codec="mpeg4"),
    "part2.avi": replace(SPEC, codec="mpeg4", b_frames=0),
    "vp9.webm": replace(SPEC, codec="libvpx-vp9"),
    "no_index.mkv": SPEC,
    "one_group.mp4": replace(SPEC, gop=1000),
    "no_times.h264": replace(SPEC, format="h264"),
}
DIVIDED = {name for name in CLIPS if name not in ("one_group.mp4", "no_times.h264")}
BUDGET = BudgetClass(min_pixels=28 * 28, max_pixels=112 * 84, max_frames=60, min_frames=60, sample_fps=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    for name, spec in CLIPS.items():
        write_clip(folder / name, spec)
    without_cues = (folder / "no_index.mkv").read_bytes().replace(b"\x1c\x53\xbb\x6b", b"\xec\x53\xbb\x6b")
    (folder / "no_index.mkv").write_bytes(without_cues)  # the table of keyframes now counts as padding
    return folder


@pytest.fixture
def short_parts(monkeypatch):
    """Small clips are divided as long ones are."""
    monkeypatch.setattr(timeline, "PART_NS", 20 * 80 * 48 * timeline.NS_PER_PIXEL)


def test_clips_are_divided_where_they_have_entry_points(folder, short_parts):
    for name in CLIPS:
        with open_clip(folder / name, reader="pyav") as clip:
            wanted = list(range(clip.info.num_frames))
            parts = clip.parts(wanted)
            assert [index for part in parts for index in part] == wanted
            assert (len(parts) > 3) == (name in DIVIDED), (name, len(parts))


@pytest.mark.parametrize("reader", EACH)
@pytest.mark.parametrize("name", CLIPS)
def test_as_many_threads_as_one_likes_give_the_same_bits(folder, name, reader, short_parts):
    job, video = OpenJob(MediaRef("video", folder / name), BUDGET, QWEN25), VideoSection(reader=reader)
    try:
        alone = open_medium(job, video)
    except MediaError as refused:
        assert "use" in str(refused) and "pyav" in str(refused)
        return
    hidden = CLIPS[name].hidden
    shown = [shown_index(frame.permute(1, 2, 0).numpy()) for frame in alone.frames_F3HW]
    assert shown == [index + hidden for index in alone.frame_indices]
    for threads in (2, 5):
        several = open_medium(job, video, threads=lambda threads=threads: threads)
        assert torch.equal(several.frames_F3HW, alone.frames_F3HW)
        for field in fields(alone):
            if field.name != "frames_F3HW":
                assert getattr(several, field.name) == getattr(alone, field.name)


def test_threads_really_read_side_by_side(folder, short_parts):
    """Two threads meet: each waits in its part until the other has come to one."""
    meeting, names = threading.Barrier(2, timeout=20), set()

    def read(clip, part):
        if threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            meeting.wait()

    with open_clip(folder / "closed.mp4", reader="pyav") as clip:
        read_parts(clip, range(240), read, threads=lambda: 2)
    assert len(names) == 2


def test_helpers_come_and_go_with_the_allowance(folder, short_parts):
    allowed, seen = SharedCount(), []
    allowed.set(1)

    def read(clip, part):
        seen.append(threading.active_count())
        allowed.set(3 if len(seen) == 3 else allowed.get())
        time.sleep(0.02)

    before = threading.active_count()
    with open_clip(folder / "closed.mp4", reader="pyav") as clip:
        read_parts(clip, range(240), read, threads=allowed.get)
    assert set(seen[:3]) == {before} and max(seen) == before + 2
    assert threading.active_count() == before
    allowed.close()


@pytest.mark.parametrize("in_helper", [False, True])
def test_an_error_of_any_thread_is_raised_and_ends_the_others(folder, short_parts, in_helper):
    main, done = threading.current_thread(), []

    def read(clip, part):
        done.append(part)
        if (threading.current_thread() is not main) == in_helper:
            raise MediaError("clip", "broken there")
        time.sleep(0.05)

    with open_clip(folder / "closed.mp4", reader="pyav") as clip:
        count = len(clip.parts(range(240)))
        with pytest.raises(MediaError, match="broken there"):
            read_parts(clip, range(240), read, threads=lambda: 2)
    assert len(done) < count


def test_a_clip_that_cannot_be_divided_is_read_at_once(folder):
    with open_clip(folder / "closed.mp4", reader="opencv") as clip:
        assert not isinstance(clip, DivisibleClip)
        calls = []
        read_parts(clip, [3, 1], lambda own, part: calls.append((own is clip, part)), threads=lambda: 4)
    assert calls == [(True, [3, 1])]


def test_processes_get_the_idle_cores_and_give_them_back(folder):
    with MediaOpener(VideoSection(), workers=4) as opener:
        jobs = [OpenJob(MediaRef("video", folder / "closed.mp4"), BUDGET, QWEN25)] * 6
        results = dict(opener.open_many(jobs))
        assert len({result.frames_F3HW.numpy().tobytes() for result in results.values()}) == 1
        assert len(opener._processes) == 4
        counts = []
        for busy in (1, 2, 3, 4):
            for place, process in enumerate(opener._processes):
                process._job = jobs[0] if place < busy else None
            opener._share_cores(idle=4)
            counts.append([process.threads.get() for process in opener._processes if process.busy])
        assert counts == [[4], [2, 2], [2, 1, 1], [1, 1, 1, 1]]
        opener._share_cores(idle=0)
        assert [process.threads.get() for process in opener._processes] == [1, 1, 1, 1]
        for process in opener._processes:
            process._job = None
