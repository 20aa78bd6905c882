"""The same picture or clip by every route a dataset may take: equal pixels, one cache entry."""

import base64
import os
from dataclasses import fields

import pytest
import torch
from makers.clips import ClipSpec, write_clip
from makers.media import BUDGET, open_here, picture_bytes, read_one, write_frames, write_picture, write_tar, write_zip
from makers.openers import QWEN25, LocalOpener
from makers.readers import EACH

from mmrl.config.schema import BudgetClass, VideoSection
from mmrl.data.cache import PixelCache
from mmrl.data.decoder import MediaOpener
from mmrl.data.locate import MediaRules
from mmrl.data.opening import OpenJob
from mmrl.errors import MediaError

OLD_NS = 10**18
RULES = MediaRules(source_fps=10.0)


def routes(folder, name, data, kind):
    """Name of a route -> what a row writes in it, for the file `name` in `folder` and its bytes."""
    mime = {"png": "image/png", "jpg": "image/jpeg", "mp4": "video/mp4"}[name.rpartition(".")[2]]
    text = base64.b64encode(data).decode()
    write_zip(folder / "deflated.zip", {"other.txt": b"x", f"a b/{name}": data})
    write_zip(folder / "stored.zip", {name: data}, deflate=False)
    write_tar(folder / "plain.tar", {"first.txt": b"y" * 700, f"./c/{name}": data})
    (folder / "dir%20x").mkdir(exist_ok=True)
    (folder / "dir x").mkdir(exist_ok=True)
    (folder / "dir x" / name).write_bytes(data)
    return {
        "path": name,
        "absolute": str(folder / name),
        "file url": f"file://{folder}/{name}",
        "file url of localhost": f"file://localhost{folder}/{name}",
        "escaped file url": f"file://{folder}/dir%20x/{name}",
        "data uri": f"data:{mime};base64,{text}",
        "nameless data uri": f"data:;base64,{text}",
        "base64": text,
        "declared base64": {"bytes": text},
        "bytes": data,
        "hub struct": {"bytes": data, "path": "somewhere/else.bin"},
        "hub struct without bytes": {"bytes": None, "path": name},
        "struct in a mapping": {kind: {"bytes": data, "path": None}},
        "mapping": {kind: name},
        "typed mapping": {"type": kind, kind: f"file://{folder}/{name}", "max_pixels": None},
        "zip": f"deflated.zip::a b/{name}",
        "stored zip": f"stored.zip::{name}",
        "zip by file url": f"file://{folder}/stored.zip::{name}",
        "tar": f"plain.tar::c/{name}",
    }


def same(found, expected):
    assert torch.equal(found.frames_F3HW, expected.frames_F3HW)
    for field in fields(expected):
        if field.name != "frames_F3HW":
            assert getattr(found, field.name) == getattr(expected, field.name), field.name


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
def test_a_picture_is_the_same_by_every_route(tmp_path, name):
    data = picture_bytes(1, format={"a.png": "PNG", "a.jpg": "JPEG"}[name])
    (tmp_path / name).write_bytes(data)
    plain = open_here(read_one(name, tmp_path))
    cache, keys = PixelCache(tmp_path / "cache"), set()
    for written in routes(tmp_path, name, data, "image").values():
        ref = read_one(written, tmp_path)
        same(open_here(ref), plain)
        keys.add(cache.request(OpenJob(ref, BUDGET, QWEN25), VideoSection()).key)
    assert len(keys) == 1


@pytest.mark.parametrize("reader", EACH)
def test_a_clip_is_the_same_by_every_route_with_every_reader(tmp_path, reader):
    data = write_clip(tmp_path / "v.mp4", ClipSpec(frames=24, width=96, height=64)).read_bytes()
    plain = open_here(read_one("v.mp4", tmp_path, kind="video"), reader=reader)
    assert plain.frame_indices == (0, 6, 12, 18)
    cache, keys, video = PixelCache(tmp_path / "cache"), set(), VideoSection.model_validate({"reader": reader})
    for written in routes(tmp_path, "v.mp4", data, "video").values():
        ref = read_one(written, tmp_path, kind="video")
        same(open_here(ref, reader=reader), plain)
        keys.add(cache.request(OpenJob(ref, BUDGET, QWEN25), video).key)
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("no_times.h264", ClipSpec(format="h264")),
        ("animation.gif", ClipSpec(codec="gif", pix_fmt="rgb8", frames=12)),
        ("broadcast.ts", ClipSpec()),
        ("mpeg4.avi", ClipSpec(codec="mpeg4", b_frames=0)),
        ("vp9.webm", ClipSpec(codec="libvpx-vp9")),
    ],
)
def test_a_container_is_known_by_its_content(tmp_path, name, spec):
    data = write_clip(tmp_path / name, spec).read_bytes()
    plain = open_here(read_one(name, tmp_path, kind="video"))
    write_zip(tmp_path / "a.zip", {"no suffix": data})
    for written in (data, "a.zip::no suffix"):
        same(open_here(read_one(written, tmp_path, kind="video")), plain)


def test_decoder_processes_open_every_route(tmp_path):
    clips, pictures = tmp_path / "clips", tmp_path / "pictures"
    clips.mkdir()
    clip = write_clip(clips / "v.mp4", ClipSpec(frames=24)).read_bytes()
    picture = write_picture(pictures / "a.png").read_bytes()
    refs = [read_one(written, clips, kind="video") for written in routes(clips, "v.mp4", clip, "video").values()]
    refs += [read_one(written, pictures) for written in routes(pictures, "a.png", picture, "image").values()]
    write_frames(tmp_path / "frames", 12)
    refs.append(read_one("frames", tmp_path, kind="video", rules=RULES))
    with MediaOpener(VideoSection(), workers=1) as opener:
        found = dict(opener.open_many([(ref, BUDGET, QWEN25) for ref in refs]))
    for number, ref in enumerate(refs):
        same(found[number], open_here(ref))


def test_one_entry_serves_every_route(tmp_path):
    data, opener = write_picture(tmp_path / "a.png").read_bytes(), LocalOpener()
    cache = PixelCache(tmp_path / "cache")
    entries = [
        cache.get(read_one(written, tmp_path), BUDGET, QWEN25, opener)
        for written in routes(tmp_path, "a.png", data, "image").values()
    ]
    assert opener.opened == 1 and len({entry.key for entry in entries}) == 1
    assert len(list((tmp_path / "cache/pixels").glob("*/*"))) == 1


def key_of(cache, value, root, *, kind="video", budget=BUDGET):
    ref = read_one(value, root, kind=kind, rules=RULES)
    return cache.request(OpenJob(ref, budget, QWEN25), VideoSection()).key


def test_what_is_shown_is_part_of_the_key(tmp_path):
    write_clip(tmp_path / "v.mp4", ClipSpec(frames=24))
    frames = [str(path) for path in write_frames(tmp_path / "frames", 4)]
    cache = PixelCache(tmp_path / "cache")
    different = [
        "v.mp4",
        {"video": "v.mp4", "start_s": 0.5},
        {"video": "v.mp4", "end_s": 1.5},
        {"video": "v.mp4", "start_s": 0.5, "end_s": 1.5},
        [frames],
        [frames[::-1]],
        {"frames": frames, "source_fps": 5},
        {"frames": frames, "start_s": 0.1},
    ]
    keys = [key_of(cache, value, tmp_path) for value in different]
    assert len(set(keys)) == len(different)
    equal = [
        {"video": "v.mp4", "start_s": 0},
        {"video": "v.mp4", "video_start": 0.5},
        {"video": "v.mp4", "video_end": 1.5},
        {"video": "v.mp4", "video_start": 0.5, "video_end": 1.5},
        "frames",
        {"frames": frames[::-1]},
        {"video": "frames", "raw_fps": 5.0},
        {"frames": "frames", "video_start": 0.1},
    ]
    assert [key_of(cache, value, tmp_path) for value in equal] == keys
    smaller = BudgetClass(min_pixels=28 * 28, max_pixels=56 * 56)
    assert key_of(cache, "v.mp4", tmp_path, budget=smaller) not in keys


def test_a_whole_number_of_seconds_has_one_key(tmp_path):
    write_clip(tmp_path / "v.mp4", ClipSpec(frames=24))
    first, second = PixelCache(tmp_path / "1"), PixelCache(tmp_path / "2")
    assert key_of(first, {"video": "v.mp4", "start_s": 1}, tmp_path) == key_of(
        second, {"video": "v.mp4", "start_s": 1.0}, tmp_path
    )


def test_content_hashes_of_members_are_remembered(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"x.png": picture_bytes(1), "y.png": picture_bytes(2)})
    os.utime(path, ns=(OLD_NS, OLD_NS))
    for hashed in (2, 0):
        cache = PixelCache(tmp_path / "cache")
        keys = {key_of(cache, f"a.zip::{name}.png", tmp_path, kind="image") for name in "xy"}
        assert len(keys) == 2 and cache.hashes.files_hashed == hashed
    write_zip(path, {"x.png": picture_bytes(3), "y.png": picture_bytes(2)})
    os.utime(path, ns=(OLD_NS + 1, OLD_NS + 1))
    cache = PixelCache(tmp_path / "cache")
    changed = {key_of(cache, f"a.zip::{name}.png", tmp_path, kind="image") for name in "xy"}
    assert len(changed & keys) == 1  # y is the same picture still


def test_a_broken_file_is_named_by_its_place(tmp_path):
    write_zip(tmp_path / "a.zip", {"bad.png": picture_bytes()[:200], "page.png": b"<html></html>", "v.mp4": b"no clip"})
    for written, kind, reason in [
        ("a.zip::bad.png", "image", f"{tmp_path}/a.zip::bad.png: image file is truncated"),
        ("a.zip::page.png", "image", f"{tmp_path}/a.zip::page.png: not a picture; it starts with b'<html></html>'"),
        (
            "a.zip::v.mp4",
            "video",
            f"{tmp_path}/a.zip::v.mp4: no readable container (not a video, or cut before its index); it starts with "
            "b'no clip'",
        ),
        (b"<html>", "image", "image bytes of media[0] (6 bytes in the row): not a picture; it starts with b'<html>'"),
        (b"no clip", "video", "video bytes of media[0] (7 bytes in the row): no readable container"),
    ]:
        with pytest.raises(MediaError) as caught:
            open_here(read_one(written, tmp_path, kind=kind))
        assert str(caught.value).startswith(reason) and "/proc/self" not in str(caught.value)


def test_the_first_bytes_decide_what_a_picture_is(tmp_path):
    (tmp_path / "named.jpg").write_bytes(picture_bytes(4))  # a PNG
    (tmp_path / "no_suffix").write_bytes(picture_bytes(4))
    found = [open_here(read_one(name, tmp_path)) for name in ("named.jpg", "no_suffix")]
    same(found[0], found[1])
