"""Clips: every reader gives the same frames by presentation time. Frames show their own index (makers/clips.py)."""

import subprocess
import sys
from fractions import Fraction

import av
import numpy as np
import pytest
from makers.clips import ClipSpec, cut_file, shown_index, write_clip, write_streams
from makers.readers import ABSENT, EACH, USABLE
from makers.shared import shared_media

from mmrl.data.video import READERS, frame_at, mean_rate, open_clip, reader_version
from mmrl.data.video_readers.container_size import promised_bytes
from mmrl.errors import ConfigError, MediaError

VFR = tuple(np.cumsum([0.0] + [0.05, 0.05, 0.4, 0.1, 0.033] * 5).round(4).tolist())
EVERY, DECORD = frozenset(READERS), frozenset({"decord", "qwen_vl_utils"})
NOT_TIMED = DECORD | {"torchcodec"}

# name of the file -> how it is made, readers that refuse it (each with an error that names it)
CLIPS = {
    "constant.mp4": (ClipSpec(frames=40), frozenset()),
    "variable.mp4": (ClipSpec(frames=len(VFR), times_s=VFR), frozenset()),  # fault 40
    "one_keyframe.mp4": (ClipSpec(frames=60, gop=250, b_frames=3), frozenset()),
    "open_groups.mp4": (ClipSpec(frames=60, gop=20, b_frames=3, open_gop=True), frozenset()),
    "turned_90.mp4": (ClipSpec(rotation=90), frozenset()),  # fault 41
    "turned_180.mp4": (ClipSpec(rotation=180), frozenset()),
    "turned_270.mp4": (ClipSpec(rotation=270), frozenset()),
    "odd.mp4": (ClipSpec(width=81, height=47, pix_fmt="yuv444p"), frozenset()),
    "late_start.mp4": (ClipSpec(start_s=2.0), frozenset()),  # fault 39
    "late_start.mkv": (ClipSpec(start_s=2.0), frozenset()),
    "edit_list.mp4": (ClipSpec(frames=35, hidden=5), NOT_TIMED),  # fault 39
    "one_frame.mp4": (ClipSpec(frames=1), frozenset({"qwen_vl_utils"})),  # fault 34
    "no_times.h264": (ClipSpec(format="h264"), NOT_TIMED),
    "animation.gif": (ClipSpec(codec="gif", pix_fmt="rgb8", frames=12), DECORD),
    "ten_bit_hevc.mp4": (ClipSpec(codec="libx265", pix_fmt="yuv420p10le"), frozenset({"qwen_vl_utils"})),
    "hevc.mkv": (ClipSpec(codec="libx265", frames=60, gop=20, b_frames=3), frozenset({"qwen_vl_utils"})),
    "vp9.webm": (ClipSpec(codec="libvpx-vp9"), frozenset()),
    "av1.mkv": (ClipSpec(codec="libsvtav1"), EVERY - {"pyav", "torchcodec"}),
    "mpeg4.mp4": (ClipSpec(codec="mpeg4", frames=40), frozenset({"qwen_vl_utils"})),
    "mpeg4.avi": (ClipSpec(codec="mpeg4", frames=40, b_frames=0), DECORD),
    "reordered.avi": (ClipSpec(), NOT_TIMED),
    "broadcast.ts": (ClipSpec(), NOT_TIMED),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    for name, (spec, _) in CLIPS.items():
        write_clip(folder / name, spec)
    return folder


def shown(clip, indices):
    return {index: shown_index(frame) for index, frame in clip.frames(indices)}


@pytest.mark.parametrize("reader", EACH)
@pytest.mark.parametrize("name", [name for name in CLIPS if name != "av1.mkv"])
def test_frames_are_those_asked_for(folder, name, reader):  # faults 39, 40, 41, 45
    spec, refused_by = CLIPS[name]
    if reader in refused_by:
        with pytest.raises(MediaError, match=rf"{name}: .*(reader {reader}|reader decord).*pyav"):
            open_and_read(folder / name, reader)
        return
    with open_clip(folder / name, reader=reader) as clip:
        count = spec.frames - spec.hidden
        assert clip.info.num_frames == count and clip.info.missing_frames == 0
        assert clip.info.size == (spec.width, spec.height)
        for wanted in (range(count), range(count - 1, -1, -7), [count - 1], [count // 2], []):
            assert shown(clip, wanted) == {index: index + spec.hidden for index in wanted}


def open_and_read(path, reader):
    with open_clip(path, reader=reader) as clip:
        return dict(clip.frames(range(clip.info.num_frames)))


def test_av1(folder):
    path = folder / "av1.mkv"
    with open_clip(path, reader="pyav") as clip:
        assert clip.info.codec == "av1"
        assert shown(clip, range(0, 30, 3)) == {index: index for index in range(0, 30, 3)}
    assert open_and_read(path, "opencv") == {}  # decodes nothing, and says so by leaving the frames out
    with pytest.raises(MediaError, match=r"av1\.mkv.*reader decord; try data\.video\.reader: pyav"):
        open_and_read(path, "decord")


@pytest.mark.parametrize("name", ["constant.mp4", "variable.mp4", "turned_90.mp4", "late_start.mp4"])
def test_readers_agree_to_a_gray_level(folder, name):
    frames = {reader: open_and_read(folder / name, reader) for reader in USABLE}
    for reader, of_reader in frames.items():
        assert of_reader.keys() == frames["pyav"].keys()
        for index, frame in of_reader.items():
            assert np.abs(frame.astype(int) - frames["pyav"][index]).mean() < 1.0, (reader, index)


@pytest.mark.parametrize(
    ("name", "times_s"),
    [
        ("variable.mp4", VFR),  # fault 40
        ("late_start.mp4", [index / 10 for index in range(30)]),
        ("edit_list.mp4", [index / 10 for index in range(30)]),
        ("no_times.h264", [index / 25 for index in range(30)]),
        ("vp9.webm", [index / 10 for index in range(30)]),
    ],
)
def test_timelines(folder, name, times_s):
    with open_clip(folder / name, reader="pyav") as clip:
        assert clip.info.timestamps_s == pytest.approx(times_s, abs=1e-3)


def test_a_stream_that_is_opened_again_is_described_afresh(folder):
    for _ in range(20):  # what a closed stream says depends on what its memory holds since
        with open_clip(folder / "no_times.h264", reader="pyav") as clip:
            assert (clip.info.fps, clip.info.synthetic_times, clip.info.video_stream) == (25.0, True, 0)


def test_info_of_a_turned_clip(folder):  # fault 41
    with open_clip(folder / "turned_90.mp4", reader="pyav") as clip:
        assert (clip.info.rotation, clip.info.size, clip.info.codec) == (90, (80, 48), "h264")
        assert clip.info.fps == 10.0 and clip.info.duration_s == pytest.approx(3.0)


@pytest.mark.parametrize("reader", EACH)
def test_default_stream_of_several(tmp_path, reader):
    first, second = ClipSpec(frames=20), ClipSpec(frames=20, first=512, width=96)
    path = write_streams(tmp_path / "two.mp4", [first, second], default=1)
    if reader == "opencv":
        with pytest.raises(MediaError, match="only the first video stream"):
            open_and_read(path, reader)
        return
    with open_clip(path, reader=reader) as clip:
        assert clip.info.size == (96, 48)
        assert shown(clip, [0, 19]) == {0: 512, 19: 531}


def test_a_cover_picture_is_no_video(tmp_path):
    path = write_clip(tmp_path / "a.png", ClipSpec(codec="png", pix_fmt="rgb24", frames=1, format="image2"))
    with open_clip(path, reader="pyav") as clip:
        assert clip.info.num_frames == 1  # a picture opened as a clip is a clip of one frame


@pytest.mark.parametrize("reader", EACH)
@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "the file is empty"), (b"<html>404</html>", r"no readable container.*it starts with b'<html>404</html>'")],
)
def test_no_clip_at_all(tmp_path, reader, content, reason):  # fault 38
    path = tmp_path / "clip.mp4"
    path.write_bytes(content)
    with pytest.raises(MediaError, match=rf"clip\.mp4: {reason}"):
        open_and_read(path, reader)


@pytest.mark.parametrize("reader", EACH)
def test_no_other_reader_is_suggested_for_what_none_can_open(tmp_path, reader):
    path = write_clip(tmp_path / "clip.mp4", ClipSpec(frames=4))
    path.write_bytes(path.read_bytes().replace(b"avc1", b"none").replace(b"avcC", b"none"))
    with pytest.raises(MediaError) as caught:
        open_and_read(path, reader)
    assert str(caught.value) == f"{path}: PyAV, which all readers probe with, does not know its video codec"


@pytest.mark.parametrize(("reader", "other"), [("pyav", "opencv"), ("opencv", "pyav")])
def test_an_error_while_frames_are_read_suggests_another_reader(folder, reader, other):
    hint = rf"RuntimeError: no memory \(reader {reader}; try data\.video\.reader: {other}\)"
    with pytest.raises(MediaError, match=hint), open_clip(folder / "constant.mp4", reader=reader):
        raise RuntimeError("no memory")


def test_index_cut_off(tmp_path):  # fault 38
    path = write_clip(tmp_path / "clip.mp4", ClipSpec(fast_start=False))
    with pytest.raises(MediaError, match="no readable container"):
        open_and_read(cut_file(path, keep=0.8), "pyav")


@pytest.mark.parametrize("name", ["cut.mp4", "cut.mkv", "cut.avi"])
def test_cut_files_are_noticed(tmp_path, name):  # faults 37, 42
    spec = ClipSpec(frames=60, codec="mpeg4" if name == "cut.avi" else "libx264", b_frames=0)
    path = cut_file(write_clip(tmp_path / name, spec), keep=0.8)
    with open_clip(path, reader="pyav") as clip:
        assert clip.info.num_frames < 60
        assert clip.info.missing_frames == (60 - clip.info.num_frames if name == "cut.mp4" else None)


@pytest.mark.parametrize("reader", EACH)
def test_readers_print_nothing_about_broken_clips(tmp_path, reader):
    path = cut_file(write_clip(tmp_path / "cut.mkv", ClipSpec(frames=60, b_frames=0)), keep=0.6)
    program = (
        "import sys, pathlib, mmrl.data.video as video\n"
        "with video.open_clip(pathlib.Path(sys.argv[1]), reader=sys.argv[2]) as clip:\n"
        "    print(len(list(clip.frames([0, 3, 5]))))"
    )
    # A program of its own: FFmpeg writes to the process's standard error, and takes its level when it is first used.
    done = subprocess.run([sys.executable, "-c", program, path, reader], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_frames_after_damage_are_left_out_until_the_next_keyframe(tmp_path):  # fault 42
    path = write_clip(tmp_path / "clip.mkv", ClipSpec(frames=60, gop=20, b_frames=0))
    data = bytearray(path.read_bytes())
    offset = packet_offset(path, frame=25)
    data[offset : offset + 12] = b"\xff" * 12
    path.write_bytes(data)
    with open_clip(path, reader="pyav") as clip:
        got = shown(clip, range(60))
    assert got == {index: index for index in (*range(25), *range(40, 60))}


def packet_offset(path, *, frame):
    """Where the bytes of a packet lie in a file."""
    with av.open(str(path)) as container:
        packets = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    return path.read_bytes().index(packets[frame])


def test_unknown_reader(folder):
    with (
        pytest.raises(ConfigError, match=r"unknown reader 'mpv'; known: pyav, decord"),
        open_clip(folder / "constant.mp4", reader="mpv"),
    ):
        pass


@pytest.mark.skipif(not ABSENT, reason="torchcodec is usable here")
def test_a_reader_without_its_libraries_says_how_to_install_them():
    with pytest.raises(ConfigError) as caught:
        reader_version("torchcodec")
    message = str(caught.value)
    assert message.startswith("data.video.reader 'torchcodec' cannot be imported: ")
    assert message.endswith(
        "it needs pip install 'mmrl[torchcodec]' and FFmpeg 4 to 9 with its shared libraries (apt-get install ffmpeg); "
        "try data.video.reader: pyav"
    )


def test_reader_versions():
    assert all(
        reader_version(reader).startswith(f"{reader} ") and reader_version(reader)[-1].isdigit() for reader in USABLE
    )


@pytest.mark.parametrize(
    ("times_s", "declared", "rate"),
    [
        ([0.0, 0.033, 0.067, 0.1], 30.0, 30.0),
        ([0.0, 1.0, 2.0, 9.0], 1.0, 1 / 3),
        ([0.0, 0.1, 0.2], 1000.0, 10.0),
        ([0.0], 25.0, 25.0),
    ],
)
def test_mean_rate(times_s, declared, rate):
    assert mean_rate(times_s, declared) == pytest.approx(rate)


@pytest.mark.parametrize(("time_s", "index"), [(0.0999, 1), (0.15, None), (-0.001, 0), (0.2, 2), (9.0, None)])
def test_frame_at(time_s, index):
    assert frame_at([0.0, 0.1, 0.2], time_s) == index


def test_promised_bytes():
    assert promised_bytes(b"RIFF" + (100).to_bytes(4, "little")) == 108
    ebml = b"\x1a\x45\xdf\xa3\x81x" + b"\x18\x53\x80\x67"
    assert promised_bytes(ebml + b"\x84") == 6 + 4 + 1 + 4
    assert promised_bytes(ebml + b"\x40\x10") == 6 + 4 + 2 + 16
    assert promised_bytes(ebml + b"\xff") is None  # unknown size
    assert promised_bytes(b"\x00\x00\x00\x20ftyp") is None


SHARED = {
    "video/nasa_13013.mp4": (390, (480, 270), Fraction(30000, 1001)),
    "video/realshort.mp4": (36, (320, 240), Fraction(45000, 1499)),
    "video_bad/decord_unordered.mov": (4, (50, 50), 32),
    "video_bad/decord_video_90.mov": (3, (320, 568), 30),
    "video_bad/own_raw_no_pts.h264": (40, (480, 270), 25),
    "video_bad/tc_av1_video.mkv": (125, (640, 360), 25),
    "video_bad/tc_nasa_13013_rotated.mp4": (17, (270, 480), Fraction(30000, 1001)),
    "video_bad/tc_testsrc2_mpeg4.mp4": (1, (64, 64), 25),
    "video_bad/tc_testsrc2_vp9.webm": (30, (1280, 720), 30),
}


@pytest.mark.parametrize("name", SHARED)
def test_shared_clips(name):
    frames, size, fps = SHARED[name]
    with open_clip(shared_media() / name, reader="pyav") as clip:
        assert (clip.info.num_frames, clip.info.size) == (frames, size)
        assert clip.info.fps == pytest.approx(float(fps))
        assert sorted(index for index, _ in clip.frames([0, frames - 1])) == sorted({0, frames - 1})


def test_shared_clip_with_a_corrupt_middle():  # fault 42
    with open_clip(shared_media() / "video_bad" / "decord_corrupted.mp4", reader="pyav") as clip:
        assert clip.info.num_frames == 50
        assert [index for index, _ in clip.frames(range(50))] == list(range(29))


@pytest.mark.parametrize("reader", ["decord", "qwen_vl_utils"])
def test_shared_clip_by_timestamp_not_index(reader):  # faults 37, 45
    path = shared_media() / "video" / "nasa_13013.mp4"
    wanted = [0, 77, 200, 389]
    with open_clip(path, reader=reader) as clip, open_clip(path, reader="pyav") as reference:
        expected = dict(reference.frames(wanted))
        for index, frame in clip.frames(wanted):
            assert np.abs(frame.astype(int) - expected[index]).mean() < 1.0


@pytest.mark.parametrize("name", ["one_keyframe.mp4", "open_groups.mp4", "hevc.mkv", "vp9.webm", "broadcast.ts"])
def test_a_seek_lands_on_the_keyframe_meant(folder, name):
    """One keyframe early would still give the right frames, at twice the cost."""
    with open_clip(folder / name, reader="pyav") as clip:
        line = clip._timeline
        for index, tick in zip(line.entries_K[1:].tolist(), line.seeks_K[1:].tolist(), strict=True):
            clip._rewind(tick)
            assert next(clip._container.demux(clip._stream)).pts == line.ticks_N[index]
