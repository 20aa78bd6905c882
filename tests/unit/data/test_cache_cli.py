"""`mmrl cache`: what it lists, finds, removes and explains."""

import os
import shutil
from pathlib import Path

import pytest
from makers.configs import media_rows, write_config
from makers.entries import entry_files, flip
from makers.openers import LocalOpener
from makers.rows import write_jsonl

from mmrl.config.load import load_config
from mmrl.data.cache_cli import explain, ls, misses, parse_size, prune, push, verify
from mmrl.data.preprocess import run as module
from mmrl.data.preprocess.run import preprocess
from mmrl.errors import CacheError, ConfigError


@pytest.fixture
def filled(tmp_path, monkeypatch) -> Path:
    """A folder with config.yaml and its cache of two pictures and a clip."""
    monkeypatch.setattr(module, "MediaOpener", lambda video, workers: LocalOpener(video))
    path = write_config(tmp_path, media_rows(tmp_path, images=2, clips=1))
    for name in ("0.png", "1.png", "0.mp4"):
        os.utime(tmp_path / name, ns=(10**18, 10**18))
    assert preprocess(load_config(path)) == 0
    return tmp_path


def reasons(folder: Path, *overrides: str, sample: str | None = None) -> list[str | None]:
    return [reason for _, reason in misses(load_config(folder / "config.yaml", overrides), sample=sample)]


def test_ls_groups_by_recipe(filled, capsys):
    assert ls(filled / "cache") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].split()[:2] == ["2", "entries"] and "image: 784..7056 pixels, patches of 14, pillow" in lines[0]
    assert "video: 784..3136 pixels, at most 8 frames at 2 fps, patches of 14, pyav" in lines[1]
    assert lines[2].split()[:2] == ["3", "entries"]


def test_ls_tells_recipes_of_one_description_apart(filled, capsys):
    assert preprocess(load_config(filled / "config.yaml", ["budgets.video.min_frames=2"])) == 0
    ls(filled / "cache")
    videos = [line.partition("pyav ")[2] for line in capsys.readouterr().out.splitlines() if "video: " in line]
    assert [text.partition(", ")[2] for text in videos] == ["budget.min_frames 2", "budget.min_frames 4"]


def test_ls_counts_the_parts_of_clips_together(filled, capsys):
    row = {"prompt": "<video>?", "answer": "a", "task": "t"}
    cells = [{"video": "0.mp4", "start_s": start} for start in (0.5, 1.0)]
    write_jsonl(filled / "train.jsonl", [{**row, "videos": [cell]} for cell in cells])
    assert preprocess(load_config(filled / "config.yaml")) == 0
    capsys.readouterr()
    ls(filled / "cache")
    [line] = [line for line in capsys.readouterr().out.splitlines() if "video: " in line]
    assert line.split()[:2] == ["3", "entries"]


def test_no_folder_is_an_error(tmp_path):
    with pytest.raises(CacheError, match="no such cache folder"):
        ls(tmp_path / "none")


def test_verify_names_damaged_and_misnamed_entries(filled, capsys):
    assert verify(filled / "cache") == 0
    one, two, three = entry_files(filled / "cache")
    flip(one, -1)
    shutil.copy(three, two)
    assert verify(filled / "cache") == 1
    out = capsys.readouterr().out
    assert "3 entries and 3 sources read, 2 problems" in out
    assert f"{one}: the bytes do not match the checksum" in out
    assert f"{two}: holds the entry {three.stem}, stored under another recipe's name" in out


def test_verify_reads_the_sources_and_mends_the_memory(filled, capsys):
    path = filled / "0.png"
    flip(path, -1)
    os.utime(path, ns=(10**18, 10**18))
    assert reasons(filled) == [None, None, None]  # nobody can tell without reading it
    assert verify(filled / "cache") == 1
    assert "0.png: its content changed, its size and time did not" in capsys.readouterr().out
    assert reasons(filled) == ["its content changed since it was cached", None, None]
    assert verify(filled / "cache") == 0


def test_prune_removes_the_longest_unused_first(filled, capsys):
    old, new, newest = entry_files(filled / "cache")
    for age, path in enumerate((newest, new, old)):
        os.utime(path, (2_000_000_000 - age, 2_000_000_000 - age))
    room = new.stat().st_size + newest.stat().st_size
    assert prune(filled / "cache", size=f"{room}B") == 0
    assert entry_files(filled / "cache") == [new, newest]
    assert prune(filled / "cache", size="0") == 0
    assert entry_files(filled / "cache") == []
    assert "2 entries removed, 0 left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "size"), [("20GB", 20 * 10**9), ("1.5 MiB", 3 * 2**19), ("0", 0), ("512 b", 512), ("7kb", 7000)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "5 parsecs", "1e3"])
def test_wrong_sizes(text):
    with pytest.raises(ConfigError, match="number and a unit"):
        parse_size(text)


def test_explain_names_the_recipe_field(filled, capsys):  # fault 51
    assert reasons(filled) == [None, None, None]
    changed = reasons(filled, "budgets.video.max_frames=6")
    assert changed == [None, None, "cached under another recipe: budget.max_frames: wanted 6, stored 8"]
    config = load_config(filled / "config.yaml", ["budgets.image.max_pixels=9000"])
    assert explain(config) == 1
    out = capsys.readouterr().out
    assert "1 media are cached, 2 are not" in out
    assert "train.jsonl:1" in out and "and 1 more" in out
    assert "cached under another recipe: budget.max_pixels: wanted 9000, stored 7056" in out


def test_explain_tells_new_changed_damaged_and_gone(filled):
    flip(entry_files(filled / "cache")[0], -1)
    damaged = [reason for reason in reasons(filled) if reason]
    assert len(damaged) == 1 and "its entry is damaged" in damaged[0] and "checksum" in damaged[0]
    media_rows(filled, images=1)
    (filled / "1.png").write_bytes((filled / "1.png").read_bytes() + b"more")
    assert reasons(filled)[1] == "its content changed since it was cached"
    prune(filled / "cache", size="0")
    assert set(reasons(filled)) == {"no entry: pruned or never cached"}


def test_explain_one_sample(filled):
    config = load_config(filled / "config.yaml")
    names = [name for name, _ in misses(config)]
    first = names[0].split("(id=")[1].split(")")[0]
    assert [name for name, _ in misses(config, sample=first)] == names[:1]


def test_explain_sees_what_only_the_object_storage_holds(filled):
    url = f"file://{filled}/bucket"
    assert push(filled / "cache", url) == 0
    prune(filled / "cache", size="0")
    assert set(reasons(filled)) == {"no entry: pruned or never cached"}
    assert set(reasons(filled, f"cache.remote={url}")) == {None}
