"""Clips that are picture files: order, rate, sizes, and folders that are no clip."""

import pytest
import torch
from makers.clips import numbered_frame, shown_index
from makers.media import BUDGET, open_here, picture_bytes, read_one, write_frames, write_picture, write_zip
from makers.openers import QWEN25
from PIL import Image

from mmrl.config.schema import VideoSection
from mmrl.data.locate import MediaRules
from mmrl.data.opening import OpenJob, open_medium
from mmrl.data.sample import MediaRef
from mmrl.errors import DataError, MediaError

RULES = MediaRules(source_fps=10.0)


def shown(media):
    return [shown_index(frame.permute(1, 2, 0).numpy()) for frame in media.frames_F3HW]


def clip_of(value, root):
    return open_here(read_one(value, root, kind="video", rules=RULES))


@pytest.mark.parametrize(
    ("name", "first"), [("{}.png", 0), ("frame_{}.png", 95), ("{:05d}.png", 1), ("2024-{}b.png", 7)]
)
def test_a_folder_is_in_the_order_of_its_numbers(tmp_path, name, first):
    write_frames(tmp_path / "f", 24, name=name, first=first)
    (tmp_path / "f/.DS_Store").write_bytes(b"x")
    media = clip_of("f", tmp_path)
    assert media.frame_indices == (0, 6, 12, 18) == tuple(shown(media))  # 2.4 s, two frames a second
    assert media.timestamps_s == pytest.approx((0.0, 0.6, 1.2, 1.8))
    assert (media.source_fps, media.duration_s, media.source_size) == (10.0, pytest.approx(2.4), (80, 48))
    assert media.reader.startswith("pillow ")


def test_frames_equal_the_same_frames_in_memory(tmp_path):
    paths = [str(path) for path in write_frames(tmp_path / "f", 20)]
    frames = torch.stack([torch.from_numpy(numbered_frame(index)) for index in range(20)]).numpy()
    memory = open_medium(OpenJob(MediaRef("video", frames, source_fps=10.0), BUDGET, QWEN25), VideoSection())
    write_zip(tmp_path / "a.zip", {f"{n}": (tmp_path / f"f/{n}.png").read_bytes() for n in range(20)})
    raw = [(tmp_path / f"f/{n}.png").read_bytes() for n in range(20)]
    for value in ("f", [paths], {"frames": [f"a.zip::{n}" for n in range(20)]}, [raw]):
        media = clip_of(value, tmp_path)
        assert torch.equal(media.frames_F3HW, memory.frames_F3HW)
        assert (media.timestamps_s, media.grid_thw) == (memory.timestamps_s, memory.grid_thw)


def test_a_list_keeps_its_order(tmp_path):
    paths = [str(path) for path in write_frames(tmp_path / "f", 4)]
    assert shown(clip_of([paths[::-1]], tmp_path)) == [3, 2, 1, 0]


def test_upright_sizes_are_compared(tmp_path):
    turned = Image.fromarray(numbered_frame(1).transpose(1, 0, 2)[::-1].copy())
    exif = Image.Exif()
    exif[0x0112] = 6
    write_frames(tmp_path / "f", 1)
    turned.save(tmp_path / "f/1.png", exif=exif)
    assert clip_of("f", tmp_path).source_size == (80, 48)


def test_mixed_sizes(tmp_path):
    write_frames(tmp_path / "f", 3)
    write_picture(tmp_path / "f/3.png", size=(64, 48))
    with pytest.raises(MediaError) as caught:
        clip_of("f", tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/f (4 frames): frames of different sizes: {tmp_path}/f/3.png has 64x48 pixels, "
        "the first frame 80x48"
    )


def test_a_frame_that_is_no_picture_is_named(tmp_path):
    write_frames(tmp_path / "f", 3)
    (tmp_path / "f/1.png").write_bytes(b"<html>")
    with pytest.raises(MediaError) as caught:
        clip_of("f", tmp_path)
    assert str(caught.value) == f"{tmp_path}/f/1.png: not a picture; it starts with b'<html>'"
    (tmp_path / "f/1.png").write_bytes(picture_bytes(size=(80, 48))[:300])
    with pytest.raises(MediaError, match=r"f/1\.png: "):
        clip_of("f", tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "2.png").unlink(), "frame 2 is missing, 1 is followed by 3"),
        (lambda f: (f / "notes.txt").touch(), "notes.txt is no numbered frame; a clip's folder holds its frames only"),
        (lambda f: (f / "sub1").mkdir(), "sub1 is no numbered frame; a clip's folder holds its frames only"),
        (lambda f: write_picture(f / "x4.png"), "x4.png is not named like the others (<number>.png)"),
        (lambda f: write_picture(f / "4.jpg"), "4.jpg is not named like the others (<number>.png)"),
        (lambda f: write_picture(f / "01.png"), "01.png and 1.png have the same number"),
        (lambda f: [path.unlink() for path in f.iterdir()], "the folder holds no frames"),
    ],
)
def test_folders_that_are_no_clip(tmp_path, change, message):
    write_frames(tmp_path / "f", 4)
    change(tmp_path / "f")
    with pytest.raises(DataError) as caught:
        read_one("f", tmp_path, kind="video", rules=RULES)
    assert str(caught.value) == f"{tmp_path}/f: {message}"


def test_a_rate_is_asked_for_never_assumed(tmp_path):  # fault 44
    write_frames(tmp_path / "f", 4)
    with pytest.raises(DataError, match=r"needs their rate; write {frames: \.\.\., source_fps: N} in the row, or set"):
        read_one("f", tmp_path, kind="video")
