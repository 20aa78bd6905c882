"""Opening under a budget, and decoder processes: deadlines, crashes, ends. Clips show their frames' indices."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from makers.clips import ClipSpec, cut_file, numbered_frame, shown_index, write_clip
from makers.openers import QWEN25, SMALL
from PIL import Image

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.decoder import MediaOpener
from mmrl.data.opening import OpenJob, open_medium
from mmrl.data.sample import MediaRef
from mmrl.data.video import open_clip
from mmrl.errors import MediaError

BUDGET = BudgetClass(min_pixels=28 * 28, max_pixels=112 * 84, max_frames=8, sample_fps=2.0)
DEADLINE_S = 2.0


def video_ref(path):
    return MediaRef("video", path)


def opened(path, *, budget=BUDGET, **video):
    return open_medium(OpenJob(video_ref(path), budget, QWEN25), VideoSection(**video))


def shown(media):
    return [shown_index(frame.permute(1, 2, 0).numpy()) for frame in media.frames_F3HW]


@pytest.fixture(scope="module")
def opener():
    with MediaOpener(VideoSection(deadline_s=DEADLINE_S), workers=2) as opener:
        yield opener


@pytest.fixture
def fifo(tmp_path):
    """A file that blocks for ever whoever opens it: nobody writes into it."""
    path = tmp_path / "hangs.mp4"
    os.mkfifo(path)
    return path


@pytest.fixture
def clip(tmp_path):
    return write_clip(tmp_path / "clip.mp4", ClipSpec(frames=40, width=160, height=96))


def test_a_clip_under_a_budget(clip):
    media = opened(clip)
    assert media.frame_indices == (0, 5, 10, 15, 20, 25, 30, 35) == tuple(shown(media))  # qwen2 rule: 8 of 40
    assert media.timestamps_s == pytest.approx([index / 10 for index in media.frame_indices])
    assert media.frames_F3HW.dtype == torch.uint8 and media.frames_F3HW.shape == (8, 3, 56, 112)
    assert media.grid_thw == (4, 4, 8) and media.num_tokens == 32
    assert (media.source_size, media.source_fps, media.duration_s) == ((160, 96), 10.0, pytest.approx(4.0))
    assert media.sample_fps == pytest.approx(2.0) and media.reader.startswith("pyav ") and media.missing_frames == 0


def test_frames_of_variable_rate_are_picked_by_time(tmp_path):  # fault 40
    times_s = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 4.0)
    media = opened(write_clip(tmp_path / "vfr.mp4", ClipSpec(frames=10, times_s=times_s)))
    # 10 frames in 4.44 s: 8 are wanted, at multiples of 4/9 * 1.25 s; frame 8 is nearest to several of them
    assert media.frame_indices == tuple(shown(media)) and set(media.frame_indices) <= {0, 4, 8, 9}
    assert media.timestamps_s == pytest.approx([times_s[index] for index in media.frame_indices])


@pytest.mark.parametrize(("frames", "expected"), [(1, (0,)), (2, (0, 1)), (3, (0, 1)), (5, (0, 1, 2, 3))])
def test_short_and_odd_clips(tmp_path, frames, expected):  # faults 32, 34, 35
    media = opened(write_clip(tmp_path / "short.mp4", ClipSpec(frames=frames)))
    assert media.frame_indices == expected == tuple(shown(media))
    assert media.grid_thw[0] == (len(expected) + 1) // 2 and len(media.timestamps_s) == len(expected)  # fault 45


def test_a_broken_tail_is_an_error_with_the_counts(tmp_path):  # faults 37, 42
    path = cut_file(write_clip(tmp_path / "cut.mp4", ClipSpec(frames=60, b_frames=0)), keep=0.9)
    with pytest.raises(MediaError, match=r"cut\.mp4: \d+ of 60 frames decode \(reader pyav.*use_decoded"):
        opened(path)


@pytest.mark.parametrize(("name", "codec"), [("cut.mkv", "libx264"), ("cut.avi", "mpeg4")])
def test_no_total_is_stated_where_the_container_does_not_know_it(tmp_path, name, codec):  # faults 37, 42
    path = cut_file(write_clip(tmp_path / name, ClipSpec(frames=60, codec=codec, b_frames=0)), keep=0.8)
    with open_clip(path, reader="pyav") as clip:
        held = len(list(clip.frames(range(clip.info.num_frames))))
    counts = rf"{held} frames decode, how many the file has lost is unknown \(reader pyav [0-9.]+\); data\.video"
    with pytest.raises(MediaError, match=rf"/{name}: {counts}"):
        opened(path)
    media = opened(path, broken_tail="use_decoded")
    assert media.missing_frames is None and 0 < max(media.frame_indices) < held < 60


def test_a_broken_tail_may_be_left_out(tmp_path):  # faults 37, 42
    path = cut_file(write_clip(tmp_path / "cut.mp4", ClipSpec(frames=60, b_frames=0)), keep=0.9)
    media = opened(path, broken_tail="use_decoded")
    assert 0 < media.missing_frames < 60
    assert media.frame_indices == tuple(shown(media)) and media.frame_indices[-1] < 60 - media.missing_frames


def test_a_reader_that_decodes_nothing_is_not_replaced(tmp_path):  # fault 42
    path = write_clip(tmp_path / "av1.mkv", ClipSpec(codec="libsvtav1", frames=4))
    with pytest.raises(MediaError, match=r"0 of 4 frames decode \(reader opencv.*another data\.video\.reader"):
        opened(path, reader="opencv", broken_tail="use_decoded")


def test_media_in_memory():  # fault 44: the rate is the caller's, never assumed
    frames = np.stack([numbered_frame(index, width=160, height=96) for index in range(20)])
    media = open_medium(OpenJob(MediaRef("video", frames, source_fps=5.0), BUDGET, QWEN25), VideoSection())
    assert media.frame_indices == tuple(shown(media)) and media.duration_s == pytest.approx(4.0)
    assert media.timestamps_s == pytest.approx([index / 5 for index in media.frame_indices])
    image = open_medium(OpenJob(MediaRef("image", frames[3]), SMALL, QWEN25), VideoSection())
    assert image.frames_F3HW.shape[0] == 1 and shown(image) == [3] and image.reader == "memory"


@pytest.mark.parametrize(
    ("frames", "fps", "reason"),
    [
        (np.zeros((4, 3, 32, 32), np.uint8), 2.0, "channels last"),
        (np.zeros((0, 32, 32, 3), np.uint8), 2.0, "no pixels"),
        (np.zeros((4, 32, 32, 3), np.float32), 2.0, "expected uint8"),
        (np.zeros((4, 32, 32, 3), np.uint8), None, "source_fps"),  # fault 44
    ],
)
def test_bad_clips_in_memory(frames, fps, reason):
    with pytest.raises(MediaError, match=reason):
        open_medium(OpenJob(MediaRef("video", frames, source_fps=fps), BUDGET, QWEN25), VideoSection())


def test_impossible_sizes_name_the_medium(tmp_path):  # fault 17
    path = tmp_path / "line.png"
    Image.new("RGB", (1000, 2)).save(path)
    with pytest.raises(MediaError, match=r"line\.png: .*200 times"):
        open_medium(OpenJob(MediaRef("image", path), SMALL, QWEN25), VideoSection())


def test_one_full_frame_at_a_time_is_in_memory(tmp_path):  # faults 43, 50
    import resource

    path = write_clip(tmp_path / "large.mp4", ClipSpec(frames=64, width=1280, height=720))
    opened(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    opened(path, budget=BudgetClass(min_pixels=28 * 28, max_pixels=56 * 56, max_frames=64, sample_fps=10.0))
    grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown_bytes < 64 * 1280 * 720 * 3 / 4  # 64 frames at full size would be four times as much


def test_a_decoder_process_gives_the_same(opener, clip):
    ours, here = opener.open(video_ref(clip), BUDGET, QWEN25), opened(clip)
    assert torch.equal(ours.frames_F3HW, here.frames_F3HW)
    fields = [name for name in here.__slots__ if name != "frames_F3HW"]
    assert [getattr(ours, name) for name in fields] == [getattr(here, name) for name in fields]


def test_many_media_of_every_kind(opener, clip, tmp_path):
    picture = tmp_path / "日本 photo.png"  # fault 30
    Image.fromarray(numbered_frame(7, width=160, height=96)).save(picture)
    in_memory = MediaRef("image", numbered_frame(9, width=160, height=96))
    refs = [video_ref(clip), MediaRef("image", picture), in_memory, video_ref(tmp_path / "none.mp4"), video_ref(clip)]
    results = dict(opener.open_many([(ref, BUDGET, QWEN25) for ref in refs]))
    assert sorted(results) == [0, 1, 2, 3, 4]
    assert shown(results[0]) == shown(results[4]) == [0, 5, 10, 15, 20, 25, 30, 35]
    assert shown(results[1]) == [7] and shown(results[2]) == [9]
    assert isinstance(results[3], MediaError) and "No such file" in results[3].reason


def test_a_reader_that_hangs_is_killed_and_only_its_job_fails(opener, clip, fifo):  # fault 36
    opener.open(video_ref(clip), BUDGET, QWEN25)
    started = time.monotonic()
    results = dict(opener.open_many([(ref, BUDGET, QWEN25) for ref in map(video_ref, (fifo, clip, clip, clip))]))
    assert isinstance(results[0], MediaError) and results[0].path == str(fifo)
    assert results[0].reason == "reader pyav hung for 2 s (data.video.deadline_s) and was killed"
    assert all(shown(results[number])[1] == 5 for number in (1, 2, 3))
    assert time.monotonic() - started < 60


def decoder_pids():
    """Processes of this one that run the decoder program."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in children if b"decode_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def test_a_process_that_crashes_is_replaced_and_only_its_job_fails(clip, fifo):
    others = decoder_pids()
    with MediaOpener(VideoSection(deadline_s=60.0), workers=1) as opener:
        opener.open(video_ref(clip), BUDGET, QWEN25)
        (pid,) = decoder_pids() - others
        threading.Timer(0.5, os.kill, (pid, signal.SIGSEGV)).start()
        with pytest.raises(MediaError, match=r"hangs\.mp4: the decoder process died of signal SIGSEGV"):
            opener.open(video_ref(fifo), BUDGET, QWEN25)
        assert shown(opener.open(video_ref(clip), BUDGET, QWEN25))[1] == 5
    assert decoder_pids() == others


def test_an_abandoned_iterator_leaves_no_late_answers(opener, clip):
    jobs = [(video_ref(clip), BUDGET, QWEN25)] * 3
    iterator = opener.open_many(jobs)
    next(iterator)
    iterator.close()
    assert sorted(number for number, _ in opener.open_many(jobs)) == [0, 1, 2]


# A shell starts background jobs with SIGINT ignored, and programs inherit that: the handler is put back.
ORPHAN = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from makers.openers import QWEN25, SMALL
from mmrl.config.schema import VideoSection
from mmrl.data.decoder import MediaOpener
from mmrl.data.sample import MediaRef
from mmrl.data.video import open_clip

opener = MediaOpener(VideoSection(deadline_s=600), workers=1)
opener.open(MediaRef("video", Path(sys.argv[1])), SMALL, QWEN25)
print(opener._processes[0]._popen.pid, flush=True)
opener.open(MediaRef("video", Path(sys.argv[2])), SMALL, QWEN25)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_no_decoder_process_outlives_its_program(clip, fifo, end):
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    command = [sys.executable, "-c", ORPHAN, str(clip), str(fifo)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        time.sleep(0.5)  # let it reach the clip that hangs
        program.send_signal(end)
        try:
            program.wait(timeout=30)
        finally:
            program.kill()
    for _ in range(100):
        if not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes():
            return
        time.sleep(0.1)
    pytest.fail(f"decoder process {pid} is still there")
