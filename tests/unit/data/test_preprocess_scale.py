"""`mmrl preprocess` at scale: parts of a whole, largest first, room on the disk, quarantine, kills, progress."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from makers.clips import ClipSpec, write_clip
from makers.command import mmrl
from makers.configs import media_rows, write_config
from makers.openers import LocalOpener

from mmrl.config.load import load_config
from mmrl.config.schema import VideoSection
from mmrl.data.decoder import deadline_s
from mmrl.data.preprocess import estimate as estimate_module
from mmrl.data.preprocess import run as module
from mmrl.data.preprocess.progress import Speed
from mmrl.data.preprocess.run import Options, preprocess
from mmrl.data.preprocess.shards import Shard, parse_shard
from mmrl.data.preprocess.work import stable_name
from mmrl.data.sample import MediaRef
from mmrl.errors import CacheError, ConfigError

TESTS = Path(__file__).resolve().parents[2]


def entries(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "cache" / "pixels").glob("*/*.safetensors"))}


def failures(folder: Path, name: str = "failures.jsonl") -> list[dict]:
    return [json.loads(line) for line in (folder / "cache" / name).read_text().splitlines()]


@pytest.fixture
def opened(monkeypatch):
    opener = LocalOpener()
    monkeypatch.setattr(module, "MediaOpener", lambda video, workers: opener)
    return opener


# Parts


def test_parts_are_disjoint_and_make_the_whole(tmp_path, opened):
    rows = media_rows(tmp_path, images=12, clips=2)
    rows.append({"prompt": "<image><image>", "answer": "a", "task": "t", "images": ["0.png"]})
    config = load_config(write_config(tmp_path, rows))
    bad = 0
    for index in range(3):
        before, had = opened.opened, len(entries(tmp_path))
        preprocess(config, Options(shard=Shard(index, 3)))
        assert opened.opened - before == len(entries(tmp_path)) - had > 0
        bad += len(failures(tmp_path, f"failures.{index}-of-3.jsonl"))
    assert (opened.opened, bad) == (14, 1)
    by_parts = entries(tmp_path)
    shutil.rmtree(tmp_path / "cache")
    assert preprocess(config) == 1
    assert entries(tmp_path) == by_parts and len(by_parts) == 14


def test_a_name_is_in_one_part_the_same_wherever_the_data_lie():
    names = [f"clips/{number}.mp4" for number in range(1000)]
    held = [[name for name in names if Shard(index, 4).holds(name)] for index in range(4)]
    assert sorted(name for part in held for name in part) == sorted(names)
    assert all(200 < len(part) < 300 for part in held)
    here = stable_name(MediaRef("video", Path("/a/set/clips/1.mp4")), beside=Path("/a/set/train.jsonl"))
    there = stable_name(MediaRef("video", Path("/mnt/b/set/clips/1.mp4")), beside=Path("/mnt/b/set/train.jsonl"))
    assert here == there == "clips/1.mp4"
    part = stable_name(MediaRef("video", Path("/a/set/clips/1.mp4"), start_s=3.0), beside=Path("/a/set/train.jsonl"))
    assert part == here


def test_which_part_is_said_or_found():
    assert parse_shard("0/1") == Shard(0, 1) and parse_shard("3/4") == Shard(3, 4)
    assert parse_shard("auto", {"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "7"}) == Shard(1, 2)
    array = {"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "8"}
    assert parse_shard("auto", array) == Shard(4, 8)
    assert parse_shard("auto", {"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}) == Shard(3, 4)
    for wrong in ("4/4", "1", "a/b", "-1/4", "0/0", ""):
        with pytest.raises(ConfigError, match="--shard"):
            parse_shard(wrong, {})
    with pytest.raises(ConfigError, match="RANK and WORLD_SIZE"):
        parse_shard("auto", {})


# Order


def test_the_largest_sources_come_first(tmp_path, monkeypatch):
    order = []

    class Noting(LocalOpener):
        def open(self, ref, budget, geometry):
            order.append(ref.source.stat().st_size)
            return super().open(ref, budget, geometry)

    monkeypatch.setattr(module, "MediaOpener", lambda video, workers: Noting())
    assert preprocess(load_config(write_config(tmp_path, media_rows(tmp_path, images=5, clips=3)))) == 0
    assert len(order) == 8 and order == sorted(order, reverse=True)


# Room


def test_the_estimate_is_what_is_written(tmp_path, opened, capsys):
    config = load_config(write_config(tmp_path, media_rows(tmp_path, images=5, clips=2)))
    for path in (*tmp_path.glob("*.png"), *tmp_path.glob("*.mp4")):
        os.utime(path, (time.time() - 60,) * 2)  # what was written just now is hashed anew
    assert preprocess(config) == 0
    written = sum(map(len, entries(tmp_path).values()))
    told = capsys.readouterr().err
    assert "7 media, about 0." in told and " MB to be written, " in told and " GB free; " in told
    config2 = config.model_copy(update={"cache": config.cache.model_copy(update={"dir": str(tmp_path / "other")})})
    need = module._need(
        config2,
        [module.list_work(config2, config2.data, Shard())],
        module.PixelCache(tmp_path / "other"),
        module.geometry_of(config.model),
    )
    assert need.new_bytes == pytest.approx(written, rel=0.05) and (need.sampled, need.unsized) == (7, 0)
    assert preprocess(config) == 0
    assert "7 media, about 0.0 MB to be written" in capsys.readouterr().err  # all are there


def test_of_very_many_a_sample_is_looked_at(tmp_path, opened, capsys, monkeypatch):
    monkeypatch.setattr(estimate_module, "SAMPLE", {"image": 3, "video": 100})
    config = load_config(write_config(tmp_path, media_rows(tmp_path, images=9)))
    assert preprocess(config) == 0
    assert "9 media, about 0.1 MB to be written (by the headers of 3 of them)" in capsys.readouterr().err


def test_what_would_not_fit_is_refused_before_anything_is_written(tmp_path, opened):
    path = write_config(tmp_path, media_rows(tmp_path, images=5))
    with pytest.raises(CacheError, match=r"5 media, about .* above cache\.max_gb 1e-05; nothing was written"):
        preprocess(load_config(path, ["cache.max_gb=0.00001"]))
    assert not (tmp_path / "cache").exists() and opened.opened == 0
    assert preprocess(load_config(path, ["cache.max_gb=1"])) == 0
    assert preprocess(load_config(path, ["cache.max_gb=1"])) == 0
    with pytest.raises(CacheError, match=r"beside 0\.1 MB there, above cache\.max_gb 1e-05"):
        preprocess(load_config(path, ["cache.max_gb=0.00001"]))


def test_a_full_disk_is_told_before(tmp_path, opened, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(estimate_module.shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(CacheError, match=r"to be written, but 0\.0 MB are free; make room"):
        preprocess(load_config(write_config(tmp_path, media_rows(tmp_path, images=5))))
    assert not (tmp_path / "cache").exists()


def test_a_cap_that_the_estimate_missed_ends_the_run_whole(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(estimate_module, "planned_bytes", lambda job: 10)
    path = write_config(tmp_path, media_rows(tmp_path, images=25))
    with pytest.raises(CacheError, match=r"has reached cache\.max_gb 3e-05; what it holds is whole"):
        preprocess(load_config(path, ["cache.max_gb=0.00003"]))
    assert 1 <= len(entries(tmp_path)) < 25


# Quarantine


def test_what_failed_is_not_tried_again_until_it_changes(tmp_path, opened):
    config = load_config(write_config(tmp_path, media_rows(tmp_path, images=3)))
    whole = (tmp_path / "1.png").read_bytes()
    (tmp_path / "1.png").write_bytes(whole[:100])
    assert preprocess(config) == 1
    tried = opened.opened
    (first,) = failures(tmp_path)
    assert preprocess(config) == 1
    (again,) = failures(tmp_path)
    assert opened.opened == tried == 3
    assert again["path"] == first["path"] == str(tmp_path / "1.png")
    assert again["reason"].startswith(first["reason"] + " (in quarantine since 20")
    assert again["reason"].endswith("; --retry-quarantined tries it again)")
    assert preprocess(config, Options(retry_quarantined=True)) == 1
    assert opened.opened == tried + 1
    (tmp_path / "1.png").write_bytes(whole)
    assert preprocess(config) == 0 and opened.opened == tried + 2


def test_what_could_be_opened_after_all_leaves_the_quarantine(tmp_path, monkeypatch):
    config = load_config(write_config(tmp_path, media_rows(tmp_path, images=1)))

    class Failing(LocalOpener):
        def open(self, ref, budget, geometry):
            raise module_error(ref)

    def module_error(ref):
        from mmrl.errors import MediaError

        return MediaError(ref.source, "the disk had a bad day")

    monkeypatch.setattr(module, "MediaOpener", lambda video, workers: Failing())
    assert preprocess(config) == 1
    monkeypatch.setattr(module, "MediaOpener", lambda video, workers: LocalOpener())
    assert preprocess(config) == 1
    assert preprocess(config, Options(retry_quarantined=True)) == 0
    shutil.rmtree(tmp_path / "cache" / "pixels")
    assert preprocess(config) == 0
    lines = [json.loads(line) for line in (tmp_path / "cache" / "quarantine.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in lines] == ["the disk had a bad day", None]
    assert lines[0]["size"] == (tmp_path / "0.png").stat().st_size and len(lines[0]["sha256"]) == 64


def test_a_hanging_file_is_killed_listed_and_tried_again_with_a_longer_deadline(tmp_path, monkeypatch):
    """The decoder sleeps for a file of this name; that is what a reader that spins looks like from outside."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(
        "import sys, time\n"
        "if 'mmrl.data.decode_worker' in ' '.join(sys.orig_argv):\n"
        "    import mmrl.data.opening as opening\n"
        "    real = opening.open_clip\n"
        "    def slow(path, *, reader):\n"
        "        time.sleep(8 if 'slow' in path.name else 0)\n"
        "        return real(path, reader=reader)\n"
        "    opening.open_clip = slow\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "hook"), os.environ.get("PYTHONPATH", "")]))
    rows = media_rows(tmp_path, images=1, clips=1)
    write_clip(tmp_path / "slow.mp4", ClipSpec(frames=9))
    rows.append({"prompt": "<video>", "answer": "a", "task": "t", "videos": ["slow.mp4"]})
    path = write_config(tmp_path, rows)
    assert preprocess(load_config(path, ["data.video.deadline_s=4"]), Options(workers=1)) == 1
    (hung,) = failures(tmp_path)
    assert hung["path"] == str(tmp_path / "slow.mp4")
    assert "reader pyav hung for 4 s (data.video.deadline_s) and was killed" in hung["reason"]
    assert len(entries(tmp_path)) == 2
    assert preprocess(load_config(path, ["data.video.deadline_s=4"]), Options(workers=1)) == 1
    assert "in quarantine" in failures(tmp_path)[0]["reason"]
    assert preprocess(load_config(path, ["data.video.deadline_s=300"]), Options(workers=1)) == 0
    assert len(entries(tmp_path)) == 3


def test_a_large_file_has_a_longer_deadline(tmp_path):
    path = tmp_path / "large.mp4"
    with path.open("wb") as file:
        file.truncate(2_000_000_000)
    assert deadline_s(MediaRef("video", path), VideoSection(deadline_s=60.0, deadline_s_per_gb=100.0)) == 260.0
    assert deadline_s(MediaRef("video", tmp_path / "gone.mp4"), VideoSection(deadline_s=60.0)) == 60.0


# Kills


@pytest.mark.slow
def test_killed_at_any_point_the_next_run_ends_as_if_nothing_had_been(tmp_path, opened):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    undisturbed.mkdir()
    path = write_config(undisturbed, media_rows(undisturbed, images=60, clips=3))
    shutil.copytree(undisturbed, killed)
    (killed / "config.yaml").write_text(path.read_text().replace(str(undisturbed), str(killed)))
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    command = [sys.executable, "-m", "mmrl", "preprocess", str(killed / path.name), "--workers", "1"]
    for at in (1, 20, 45):
        running = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.DEVNULL, cwd=killed
        )
        while len(entries(killed)) < at and running.poll() is None:
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        running.wait()
    there = len(entries(killed))
    assert 45 <= there < 63
    assert preprocess(load_config(killed / path.name)) == 0
    assert opened.opened == 63 - there
    assert preprocess(load_config(path)) == 0
    assert entries(killed) == entries(undisturbed) and len(entries(killed)) == 63
    assert failures(killed) == failures(undisturbed) == []


# Progress


def test_rates_and_time_left_are_weighted_by_bytes():
    speed = Speed(media=12, size=1_200_000_000, now=100.0)
    assert speed.left_s(100.0) is None
    for number in range(10):
        speed.add(100_000_000, 100.5 + number * 0.5)
    assert speed.rates(105.0) == (2.0, 200_000_000.0)
    assert speed.left_s(105.0) == pytest.approx(1.0)
    assert speed.text(105.0) == "2.0 media/s, 200.0 MB/s, ETA 0:00:01"


def test_what_went_by_long_ago_does_not_count():
    speed = Speed(media=1000, size=10_000, now=0.0)
    for _ in range(500):  # all there already
        speed.add(10, 0.1)
    for second in range(1, 101):
        speed.add(10, float(second))
    assert speed.rates(100.0)[0] == pytest.approx(1.0, rel=0.05)
    assert speed.left_s(100.0) == pytest.approx(400.0, rel=0.05)


# The command


def test_the_command_takes_parts_and_caps(tmp_path):
    path = write_config(tmp_path, media_rows(tmp_path, images=4))
    refused = mmrl("preprocess", path, "--max-gb", "0.00001")
    assert refused.code == 2 and "nothing was written" in refused.line_with("error: ")
    assert mmrl("preprocess", path, "--shard", "2/2").line_with("error: ").endswith("0/2 to 1/2")
    codes = [mmrl("preprocess", path, "--shard", f"{index}/2", "--workers", "1").code for index in range(2)]
    assert codes == [0, 0] and len(entries(tmp_path)) == 4


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is installed")
def test_without_ray_the_command_says_how_to_install_it(tmp_path):
    path = write_config(tmp_path, media_rows(tmp_path, images=1))
    said = mmrl("preprocess", path, "--ray")
    assert said.code == 2
    assert said.line_with("error: ").endswith("pip install 'mmrl[ray]'")


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray Data")
def test_ray_stores_the_same_and_lists_failures(tmp_path, opened):
    rows = media_rows(tmp_path, images=6, clips=2)
    (tmp_path / "3.png").write_bytes(b"<html>404</html>")
    config = load_config(write_config(tmp_path, rows))
    assert preprocess(config, Options(ray=True)) == 1
    (failure,) = failures(tmp_path)
    assert failure["path"] == str(tmp_path / "3.png") and opened.opened == 0
    by_ray = entries(tmp_path)
    shutil.rmtree(tmp_path / "cache")
    assert preprocess(config) == 1
    assert entries(tmp_path) == by_ray and len(by_ray) == 7
