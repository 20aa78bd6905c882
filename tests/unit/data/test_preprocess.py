"""`mmrl preprocess`: once each, failures listed, kills survived, two at a time."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from makers.configs import media_rows, write_config
from makers.entries import read_entry_file
from makers.openers import QWEN25, SMALL, LocalOpener

from mmrl.config.load import load_config
from mmrl.data.cache import PixelCache
from mmrl.data.mapping import temporary_files
from mmrl.data.preprocess import run as module
from mmrl.data.preprocess.run import Options, preprocess
from mmrl.data.sample import MediaRef


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "cache" / "pixels").glob("*/*.safetensors"))


def failures(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "cache" / "failures.jsonl").read_text().splitlines()]


@pytest.fixture
def opened(monkeypatch):
    """Opens media in this process instead of decoder processes; `.opened` counts them."""
    opener = LocalOpener()
    monkeypatch.setattr(module, "MediaOpener", lambda video, workers: opener)
    return opener


def test_a_second_run_decodes_nothing(tmp_path, opened):
    config = load_config(write_config(tmp_path, media_rows(tmp_path, images=5, clips=2)))
    assert preprocess(config) == 0
    assert (opened.opened, len(entries(tmp_path)), failures(tmp_path)) == (7, 7, [])
    before = [path.stat().st_mtime_ns for path in entries(tmp_path)]
    assert preprocess(config) == preprocess(config, Options(rehash=True)) == 0
    assert opened.opened == 7
    assert [path.stat().st_mtime_ns for path in entries(tmp_path)] == before


def test_decoder_processes_store_what_opening_here_gives(tmp_path):
    path = write_config(tmp_path, media_rows(tmp_path, images=2, clips=1))
    assert preprocess(load_config(path), Options(workers=1)) == 0
    config, opener = load_config(path), LocalOpener()
    cache = PixelCache(tmp_path / "cache", on_miss="error")
    for name, kind in (("0.png", "image"), ("1.png", "image"), ("0.mp4", "video")):
        entry = cache.get(MediaRef(kind, tmp_path / name), config.budgets[kind], QWEN25, opener)
        opened = opener.open(MediaRef(kind, tmp_path / name), config.budgets[kind], QWEN25)
        assert entry.frames_F3HW.equal(opened.frames_F3HW)
        assert entry.timestamps_s == opened.timestamps_s


def test_each_medium_once_however_often_it_is_named(tmp_path, opened):  # fault 50
    rows = media_rows(tmp_path, images=3)
    shutil.copy(tmp_path / "0.png", tmp_path / "copy.png")
    rows += [{**rows[0], "images": ["copy.png"]}, *rows]
    config = load_config(write_config(tmp_path, rows))
    assert preprocess(config) == 0
    assert (opened.opened, len(entries(tmp_path))) == (3, 3)


def test_failures_are_listed_with_reasons_and_the_rest_is_done(tmp_path, opened):
    rows = media_rows(tmp_path, images=3)
    (tmp_path / "1.png").write_bytes(b"<html>404</html>")
    rows.append({"prompt": "<image>", "answer": "a", "task": "t", "images": ["gone.png"]})
    rows.append({"prompt": "<image><image>", "answer": "a", "task": "t", "images": ["0.png"]})
    config = load_config(write_config(tmp_path, rows))
    assert preprocess(config) == 1
    assert len(entries(tmp_path)) == 2
    gone, count, broken = failures(tmp_path)
    path = str(tmp_path / "gone.png")
    assert gone == {"path": path, "where": "train.jsonl:4 (id=train:4)", "reason": f"no such file: {path}"}
    assert count["path"] is None
    assert count["where"].startswith("train.jsonl:5") and "2" in count["reason"]
    assert broken["path"] == str(tmp_path / "1.png") and broken["where"].startswith("train.jsonl:2")
    assert preprocess(config) == 1 and len(failures(tmp_path)) == 3


def test_error_lines_are_not_wrapped(tmp_path, opened, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    rows = media_rows(tmp_path, images=1)
    (tmp_path / "0.png").write_bytes(b"<html>404</html>")
    assert preprocess(load_config(write_config(tmp_path, rows))) == 1
    line = (
        f"failed: train.jsonl:1 (id=train:1): {tmp_path / '0.png'}: not a picture; it starts with b'<html>404</html>'"
    )
    assert line in capsys.readouterr().err.splitlines()


def test_many_failures_are_cut_and_rows_are_counted_apart(tmp_path, opened, capsys):
    rows = media_rows(tmp_path, images=2)
    (tmp_path / "1.png").write_bytes(b"<html>404</html>")
    rows += [{"prompt": "<image>", "answer": "a", "task": "t"}] * 21
    assert preprocess(load_config(write_config(tmp_path, rows))) == 1
    said = capsys.readouterr().err
    assert "1 built, 0 already cached, 0 of repeated content, 1 failed, 21 bad rows; " in said
    assert said.count("\nfailed: ") == 20
    assert f"\n... and 2 more, see {tmp_path / 'cache' / 'failures.jsonl'}\n" in said


def test_stage_and_validation_data_are_included_and_budgets_of_a_dataset_hold(tmp_path, opened):
    rows = media_rows(tmp_path, images=2)
    path = write_config(tmp_path, rows[:1])
    config = load_config(path)
    train = config.data.train[0]
    (tmp_path / "stage.jsonl").write_text(json.dumps(rows[1]) + "\n")
    small = {"image": {"min_pixels": 784, "max_pixels": 28 * 28}}
    val = train.model_copy(
        update={
            "name": "val",
            "budgets": type(config).model_validate({**config.model_dump(), "budgets": small}).budgets,
        }
    )
    stage_data = config.data.model_copy(
        update={"train": (train.model_copy(update={"path": str(tmp_path / "stage.jsonl")}),)}
    )
    raw = config.model_dump()
    raw["data"]["val"] = [val.model_dump()]
    raw["stages"] = [{"name": "s", "kind": "sft", "steps": 1, "prompts_per_step": 1, "data": stage_data.model_dump()}]
    assert preprocess(type(config).model_validate(raw)) == 0
    shapes = sorted(tuple(read_entry_file(path).shape) for path in entries(tmp_path))
    assert shapes == [(1, 3, 28, 28), (1, 3, 56, 84), (1, 3, 56, 84)]


KILLED_AT_SYNC = """
import os, signal, sys
from pathlib import Path
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
from makers.openers import QWEN25, SMALL, LocalOpener
from mmrl.data.cache import PixelCache
from mmrl.data.sample import MediaRef
from mmrl.data.mapping import temporary_files
PixelCache(Path(sys.argv[1])).get(MediaRef("image", Path(sys.argv[2])), SMALL, QWEN25, LocalOpener())
"""


def python(*arguments: object, **more) -> subprocess.Popen:
    tests = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join([str(tests.parent), str(tests)])
    return subprocess.Popen([sys.executable, *map(str, arguments)], env={**os.environ, "PYTHONPATH": paths}, **more)


def test_a_writer_killed_between_write_and_rename_leaves_no_entry(tmp_path):  # fault 75
    media_rows(tmp_path, images=1)
    assert python("-c", KILLED_AT_SYNC, tmp_path / "cache", tmp_path / "0.png").wait() == -signal.SIGKILL
    cache = PixelCache(tmp_path / "cache")
    (left,) = temporary_files(tmp_path / "cache" / "pixels")
    assert entries(tmp_path) == [] and left.stat().st_size > 3 * 56 * 84
    assert cache.remove_stale_temporaries() == 0  # it may belong to a living writer
    cache.get(MediaRef("image", tmp_path / "0.png"), SMALL, QWEN25, LocalOpener())
    assert len(entries(tmp_path)) == 1
    os.utime(left, (time.time() - 3600,) * 2)
    assert cache.remove_stale_temporaries() > 3 * 56 * 84
    assert list(temporary_files(tmp_path / "cache" / "pixels")) == []


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path, opened):
    path = write_config(tmp_path, media_rows(tmp_path, images=150))
    running = python("-m", "mmrl", "preprocess", path, "--workers", 1, stderr=subprocess.DEVNULL)
    while len(entries(tmp_path)) < 10 and running.poll() is None:
        time.sleep(0.002)
    running.kill()
    running.wait()
    done = entries(tmp_path)
    for entry in done:
        read_entry_file(entry)
    assert 10 <= len(done) < 150
    assert preprocess(load_config(path)) == 0
    assert (opened.opened, len(entries(tmp_path))) == (150 - len(done), 150)


@pytest.mark.slow
def test_two_processes_may_fill_one_cache(tmp_path):
    path = write_config(tmp_path, media_rows(tmp_path, images=12, clips=2))
    both = [python("-m", "mmrl", "preprocess", path, "--workers", 1, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert len(entries(tmp_path)) == 14
    for entry in entries(tmp_path):
        read_entry_file(entry)
    assert list(temporary_files(tmp_path / "cache" / "pixels")) == []
