"""LeRobot dataset folders: each frame a row, its cameras' pictures of that time, its action the answer."""

import json

import pyarrow.parquet
import pytest
from makers.clips import shown_index
from makers.openers import QWEN25, SMALL, LocalOpener
from makers.robots import LENGTHS, STILL, TASKS, TOP, WRIST, write_lines, write_robot_folder
from makers.rows import read

from mmrl.data.sample import MediaPart, TextPart
from mmrl.errors import DataError, MissingMediaError


def card(**robot: object) -> dict:
    return {"preset": "lerobot", "robot": robot}


def test_a_frame_is_a_row(tmp_path):
    samples = read(write_robot_folder(tmp_path / "arm", clips=False), card="lerobot")
    assert len(samples) == sum(LENGTHS)
    sample = samples[LENGTHS[0] + 2]
    assert (sample.sample_id, sample.origin) == ("1:2", "episode_000001.parquet:3")
    assert (sample.task, sample.modality, sample.answer) == ("action", "vla", [1.0, 2.0])
    assert sample.columns == {
        "proprio": [2.0, 0.0, 1.0],
        "timestamp": 0.2,
        "frame_index": 2,
        "episode_index": 1,
        "task_index": 1,
    }
    assert sample.messages[0].parts == (MediaPart(0), MediaPart(1), MediaPart(2), TextPart(TASKS[1]))
    assert [m.kind for m in sample.media] == ["image", "video", "video"]
    assert [m.source.parent.name for m in sample.media[1:]] == [TOP, WRIST]
    assert samples[0].messages[0].parts[-1] == TextPart(TASKS[0])  # a task is text, whatever it holds


@pytest.mark.parametrize(
    ("clip_seconds", "frame", "shown"),
    [(0.0, 0, [0]), (0.0, 3, [103]), (0.1, 3, [102, 103]), (0.3, 3, [100, 101, 102, 103]), (1.0, 1, [100, 101])],
)
def test_a_camera_shows_the_rows_own_time(tmp_path, clip_seconds, frame, shown):
    number = frame + (LENGTHS[0] if shown[-1] >= 100 else 0)
    folder = write_robot_folder(tmp_path / "arm")
    sample = read(folder, card=card(cameras=[WRIST], clip_seconds=clip_seconds))[number]
    [ref] = sample.media
    budget = SMALL.model_copy(update={"sample_fps": 10.0, "max_frames": 16})
    opened = LocalOpener().open(ref, budget, QWEN25)
    assert [shown_index(frame.permute(1, 2, 0).numpy()) for frame in opened.frames_F3HW] == shown


def test_every_third_frame(tmp_path):
    samples = read(write_robot_folder(tmp_path / "arm", clips=False), card=card(frame_stride=3, cameras=[TOP]))
    assert [s.sample_id for s in samples] == ["0:0", "0:3", "0:6", "1:0", "1:3"]
    assert [s.origin for s in samples[-2:]] == ["episode_000001.parquet:1", "episode_000001.parquet:4"]
    assert [m.source.parent.name for m in samples[0].media] == [TOP]
    assert STILL not in samples[0].columns  # a camera that a row does not show


def test_splits_are_ranges_of_episodes(tmp_path):
    folder = write_robot_folder(tmp_path / "arm", clips=False)
    assert [s.sample_id for s in read(folder, card="lerobot", split="val")] == [f"1:{n}" for n in range(LENGTHS[1])]
    with pytest.raises(DataError, match=r"no split 'test'; meta/info.json has: train, val"):
        read(folder, card="lerobot", split="test")
    with pytest.raises(DataError, match="the split 'odd' must be first:end, not 'all'"):
        read(folder, card="lerobot", split="odd")


@pytest.mark.parametrize("version", ["v1.6", "v3.0", None])
def test_other_versions_are_refused(tmp_path, version):
    folder = write_robot_folder(tmp_path / "arm", version=version, clips=False)
    with pytest.raises(DataError, match=rf"version {version!r}; v2.0 and v2.1 are read, take the dataset's revision"):
        read(folder, card="lerobot")


def test_what_is_not_there_is_named(tmp_path):
    folder = write_robot_folder(tmp_path / "arm", clips=False)
    with pytest.raises(DataError, match=f"no camera 'front'; the dataset has: {STILL}, {TOP}, {WRIST}"):
        read(folder, card=card(cameras=["front"]))
    (folder / f"videos/chunk-000/{TOP}/episode_000001.mp4").unlink()
    with pytest.raises(MissingMediaError, match=r"episode_000001.parquet:1 \(id=1:0\): no such file: .*top/episode"):
        read(folder, card="lerobot")
    write_lines(folder / "meta/tasks.jsonl", [{"task_index": 1, "task": "x"}])
    with pytest.raises(DataError, match=r"episode_000000.parquet:1: task_index 0 is not in meta/tasks.jsonl"):
        read(folder, card="lerobot")
    path = folder / "data/chunk-000/episode_000000.parquet"
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).slice(0, 5), path)
    with pytest.raises(DataError, match=r"the file has 5 rows, meta/episodes.jsonl says 7"):
        read(folder, card="lerobot")
    path.unlink()
    with pytest.raises(DataError, match=r"no such file: .*episode_000000.parquet"):
        read(folder, card="lerobot")
    (folder / "meta/tasks.jsonl").unlink()
    with pytest.raises(DataError, match=r"no such file: .*tasks.jsonl"):
        read(folder, card="lerobot")
    info = json.loads((folder / "meta/info.json").read_text())
    (folder / "meta/info.json").write_text(json.dumps({key: info[key] for key in info if key != "fps"}))
    with pytest.raises(DataError, match=r"info.json: no key 'fps'"):
        read(folder, card="lerobot")
    (folder / "meta/info.json").write_text("{")
    with pytest.raises(DataError, match=r"info.json: not valid JSON"):
        read(folder, card="lerobot")
