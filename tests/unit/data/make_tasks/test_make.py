"""`mmrl make-tasks`: what it writes runs, same seed same bytes, and every mistake has its message."""

import json

import pytest
import yaml
from makers.clips import ClipSpec, write_clip
from makers.command import mmrl
from makers.configs import geometry_folder
from makers.made_tasks import files_of, make, photos, rows_of
from makers.tiny_models import tiny_model_dir

from mmrl.data.make_tasks.kinds import KINDS
from mmrl.errors import ConfigError
from mmrl.plugins import shipped_dir

PICTURE_KINDS = ("image-jigsaw", "rotation", "position", "contrastive", "masked-patch")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = photos(tmp_path_factory.mktemp("mixed"))
    write_clip(folder / "a.mp4", ClipSpec(frames=250))
    write_clip(folder / "b.mp4", ClipSpec(frames=260, first=300))
    return folder


def test_every_kind_names_a_shipped_reward():
    for kind in KINDS.values():
        assert (shipped_dir("rewards") / f"{kind.reward}.py").is_file()


@pytest.mark.parametrize("kind", [*PICTURE_KINDS, "video-jigsaw", "clip-order", "arrow-of-time"])
def test_same_seed_same_bytes_and_another_seed_others(folder, tmp_path, kind):
    for name, seed in (("one", 5), ("two", 5), ("three", 6)):
        make(kind, folder, tmp_path / name, seed=seed, epochs=2)
    one, two, three = (files_of(tmp_path / name) for name in ("one", "two", "three"))
    assert one == two and one["train.jsonl"] != three["train.jsonl"]


def test_another_file_changes_nothing_for_the_others(tmp_path):
    small = photos(tmp_path / "small", ("coffee.png", "rocket.jpg"))
    large = photos(tmp_path / "large", ("astronaut.png", "coffee.png", "rocket.jpg"))
    for folder in (small, large):
        make("image-jigsaw", folder, tmp_path / f"out-{folder.name}")
    answers = [{row["id"]: row["answer"] for row in rows_of(tmp_path / f"out-{n}")} for n in ("small", "large")]
    assert answers[0].items() <= answers[1].items()


def test_check_and_preprocess_run_on_what_was_written(folder, tmp_path):
    out = tmp_path / "out"
    said = mmrl("make-tasks", "image-jigsaw", folder, out, "--grid", "2x2", "--val-share", "0.25", "--seed", "3")
    assert said.code == 0
    assert said.line_with(f"{out}: train.jsonl 3 rows, val.jsonl 1 rows, of 4 sources")
    assert {row["source"] for row in rows_of(out)}.isdisjoint(row["source"] for row in rows_of(out, "val"))
    settings = [
        f"model.path={tiny_model_dir('qwen2_5_vl')}",
        f"cache.dir={tmp_path / 'cache'}",
        "rewards.workers=0",
        "data.decode_workers=1",
        "budgets.image.max_pixels=3136",
    ]
    checked = mmrl("check", out / "run.yaml", *settings)
    assert checked.code == 0 and "nothing would stop a run" in checked.out
    assert mmrl("preprocess", out / "run.yaml", *settings).code == 0


def test_clips_as_frames_preprocess_too(folder, tmp_path):
    make("arrow-of-time", folder, tmp_path / "out")
    settings = (f"model.path={geometry_folder(tmp_path / 'model')}", f"cache.dir={tmp_path / 'cache'}")
    said = mmrl("preprocess", tmp_path / "out" / "run.yaml", *settings, "data.decode_workers=1")
    assert said.code == 0 and "2 built" in said.err


def test_the_record_says_what_was_asked(folder, tmp_path):
    make("masked-patch", folder, tmp_path / "out", seed=4, pieces=3)
    made = json.loads((tmp_path / "out" / "made.json").read_text())
    assert made["options"] == {"grid": [4, 4], "pieces": 3} and made["seed"] == 4 and made["rows"] == {"train": 4}
    run = yaml.safe_load((tmp_path / "out" / "run.yaml").read_text())
    assert run["rewards"]["tasks"] == {"masked-patch": [{"reward": "choice"}]}


def test_a_repeated_file_counts_once(tmp_path):
    photos(tmp_path / "in", ("coffee.png", "rocket.jpg"))
    (tmp_path / "in" / "same.png").write_bytes((tmp_path / "in" / "coffee.png").read_bytes())
    made = make("contrastive", tmp_path / "in", tmp_path / "out")
    assert {"source": "same.png", "version": None, "reason": "the same file as coffee.png"} in made.skipped
    assert json.loads((tmp_path / "out" / "skipped.jsonl").read_text())["source"] == "same.png"


def test_media_that_cannot_be_opened_are_exit_code_1(tmp_path):
    photos(tmp_path / "in", ("coffee.png",))
    (tmp_path / "in" / "bad.png").write_bytes(b"<html>")
    said = mmrl("make-tasks", "rotation", tmp_path / "in", tmp_path / "out")
    assert said.code == 1 and said.line_with("1 like bad.png:", "not a picture")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("image-jigsw", "in", "out"), "unknown kind 'image-jigsw'; known: image-jigsaw, video-jigsaw, "),
        (("image-jigsw", "in", "out"), "did you mean 'image-jigsaw'?"),
        (("rotation", "nowhere", "out"), "nowhere: no such file or folder"),
        (("rotation", "empty", "out"), "empty: holds no files of this kind (.png, .jpg"),
        (("rotation", "in/coffee.png", "out"), "coffee.png is a file, name its folder"),
        (("rotation", "in", "full"), "full holds files already; name another folder, or give --overwrite"),
        (("rotation", "in", "full", "--overwrite"), "was not written by make-tasks (no made.json)"),
        (("rotation", "in", "in/out"), "lies inside"),
        (("rotation", "in", "out", "--grid", "3x3"), "--grid is no option of rotation; it belongs to image-jigsaw"),
        (("image-jigsaw", "in", "out", "--grid", "3"), "--grid '3' is not ROWSxCOLUMNS, such as 3x3"),
        (("image-jigsaw", "in", "out", "--grid", "1x1"), "--grid 1x1: 2 to 100 tiles are possible"),
        (("masked-patch", "in", "out", "--pieces", "9"), "--pieces 9 of 16 cells leaves too little of a picture"),
        (("video-jigsaw", "in", "out", "--trim", "0.5"), "--trim 0.5 is no share from 0 to below 0.5"),
        (("contrastive", "in", "out"), "a negative pair needs two different pictures, there is one"),
        (("rotation", "in", "out", "--val-share", "0.5"), "--val-share 0.5 of 1 sources leaves one side empty"),
        (("video-jigsaw", "clips", "out"), "none of 1 sources makes a training row; the first: a.mp4: lasts 3.0 s"),
    ],
)  # fmt: skip
def test_mistakes(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    photos(tmp_path / "in", ("coffee.png",))
    (tmp_path / "in" / "a.md").write_text("# A\n")
    (tmp_path / "clips").mkdir()
    write_clip(tmp_path / "clips" / "a.mp4", ClipSpec(frames=30))
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    said = mmrl("make-tasks", *arguments)
    assert said.code == 2 and message in said.err, said
    assert not (tmp_path / "out").exists() and (tmp_path / "full" / "mine.txt").exists()
    assert not list(tmp_path.glob(".building-*"))


def test_overwrite_replaces_what_was_made(folder, tmp_path):
    make("image-jigsaw", folder, tmp_path / "out")
    said = mmrl("make-tasks", "rotation", folder, tmp_path / "out", "--overwrite")
    assert said.code == 0 and {row["task"] for row in rows_of(tmp_path / "out")} == {"rotation"}


def test_a_missing_package_names_the_extra(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("mmrl.data.make_tasks.kinds.DOCUMENT_PACKAGES", {"no_such_module": "no-such-package"})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.md").write_text("# A\n")
    with pytest.raises(ConfigError, match=r"need the packages no-such-package; pip install 'mmrl\[documents\]'"):
        make("document", tmp_path / "in", tmp_path / "out")


def test_help_names_every_kind():
    said = mmrl("make-tasks", "--help")
    words = " ".join(said.out.split())
    assert said.code == 0 and all(kind in words for kind in KINDS)
