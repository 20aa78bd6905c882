"""Media in rows, archives and PDFs through the commands: preprocess, cache verify and explain, Parquet rows."""

import gc
import os

import pyarrow
import pyarrow.parquet
import yaml
from makers.clips import ClipSpec, write_clip
from makers.configs import BUDGETS, geometry_folder, write_config
from makers.media import picture_bytes, write_frames, write_pdf, write_zip

from mmrl.config.load import load_config
from mmrl.data.cache_cli import misses, verify
from mmrl.data.locations import RawBytes
from mmrl.data.preprocess.media import distinct_media
from mmrl.data.preprocess.run import preprocess
from mmrl.data.skipped import SkippedLog

OLD_NS = 10**18


def row(**media):
    text = "".join("<image>" if kind == "images" else "<video>" for kind, items in media.items() for _ in items)
    return {"prompt": f"{text} What?", "answer": "a", "task": "t", **media}


def test_every_shape_from_rows_to_cache(tmp_path, capsys):
    picture, clip = picture_bytes(1), write_clip(tmp_path / "v.mp4", ClipSpec(frames=30)).read_bytes()
    write_zip(tmp_path / "a.zip", {"p.png": picture, "v.mp4": clip})
    write_pdf(tmp_path / "x.pdf")
    write_frames(tmp_path / "f", 8)
    os.utime(tmp_path / "a.zip", ns=(OLD_NS, OLD_NS))
    rows = [
        row(images=["a.zip::p.png", "x.pdf#page=1", "x.pdf#page=2"]),
        row(videos=["a.zip::v.mp4", {"video": "v.mp4", "start_s": 1.0, "end_s": 2.0}]),
        row(videos=[{"video": "v.mp4", "max_pixels": 28 * 28}]),
        row(videos=["v.mp4"]),
        row(videos=["f"]),
    ]
    path = write_config(tmp_path, rows)
    tree = yaml.safe_load(path.read_text())
    tree["data"]["train"][0]["source_fps"] = 4.0
    path.write_text(yaml.safe_dump(tree))
    config = load_config(path)
    assert preprocess(config) == 0
    assert "7 built, 0 already cached, 1 of repeated content, 0 failed" in capsys.readouterr().err
    assert preprocess(config) == 0
    assert "0 built, 7 already cached, 1 of repeated content" in capsys.readouterr().err
    found = dict(misses(config))
    assert set(found.values()) == {None}
    assert f"train.jsonl:1 (id=train:1): {tmp_path}/x.pdf#page=2" in found
    assert f"train.jsonl:5 (id=train:5): {tmp_path}/f (8 frames)" in found
    changed = load_config(path, ["data.pdf_dpi=72"])
    reasons = {name.rpartition("/")[2]: reason for name, reason in misses(changed)}
    assert reasons["x.pdf#page=1"] == "cached under another recipe: dpi: wanted 72, stored 144"
    _verify_finds_a_changed_member(tmp_path, picture, clip, capsys)


def _verify_finds_a_changed_member(folder, picture, clip, capsys):
    assert verify(folder / "cache") == 0
    assert "7 entries and" in capsys.readouterr().out
    assert (
        write_zip(folder / "b.zip", {"p.png": picture, "v.mp4": clip}).stat().st_size
        == (folder / "a.zip").stat().st_size
    )
    raw = bytearray((folder / "b.zip").read_bytes())
    with (folder / "a.zip").open("r+b") as file:  # the same inode, size and time; one byte of a member's data
        file.seek(raw.index(b"p.png") + 200)
        file.write(b"\x00" if raw[raw.index(b"p.png") + 200] else b"\x01")
    os.utime(folder / "a.zip", ns=(OLD_NS, OLD_NS))
    assert verify(folder / "cache") == 1
    assert "a.zip::p.png: " in capsys.readouterr().out


def test_structs_of_hub_datasets_in_parquet(tmp_path, capsys):
    picture, clip = picture_bytes(1), write_clip(tmp_path / "v.mp4", ClipSpec(frames=30)).read_bytes()
    (tmp_path / "p.png").write_bytes(picture_bytes(2))
    rows = [
        {**row(images=["a"]), "images": [{"bytes": picture, "path": "a.png"}], "videos": None},
        {**row(images=["a"]), "images": [{"bytes": None, "path": "p.png"}], "videos": None},
        {**row(videos=["a"]), "images": None, "videos": [{"bytes": clip, "path": None}]},
        {**row(images=["a"]), "images": [{"bytes": picture, "path": "again.png"}], "videos": None},
        {**row(images=["a"]), "images": [{"bytes": b"<html>", "path": "bad.png"}], "videos": None},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    card = {"columns": {name: name for name in ("prompt", "answer", "task", "images", "videos")}}
    tree = {
        "model": {"path": str(geometry_folder(tmp_path / "model"))},
        "budgets": BUDGETS,
        "data": {"train": [{"path": str(tmp_path / "train.parquet"), "card": card}], "decode_workers": 1},
        "cache": {"dir": str(tmp_path / "cache")},
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(tree))
    config = load_config(path)
    media = distinct_media(config, config.data, skipped=SkippedLog(None, max_fraction=1.0))
    gc.collect()
    assert len(media) == 5 and not any(isinstance(thing, RawBytes) for thing in gc.get_objects())  # fault 61
    assert preprocess(config) == 1
    printed = capsys.readouterr().err
    assert "3 built, 0 already cached, 1 of repeated content, 1 failed" in printed
    name = "image bytes of bad.png in images[0] (6 bytes in the row)"
    assert f"failed: train.parquet:5 (id=train:5): {name}: not a picture; it starts with b'<html>'" in printed
