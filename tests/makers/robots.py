"""A small LeRobot dataset folder: two cameras of numbered clips, one that stores pictures, two episodes, two tasks."""

import json
from io import BytesIO
from pathlib import Path

import pyarrow
import pyarrow.parquet
from makers.clips import ClipSpec, write_clip
from PIL import Image

FPS = 10
LENGTHS = (7, 4)
TASKS = ("Put the <image> cup down.", "Open the drawer.")
TOP, WRIST, STILL = "observation.images.top", "observation.images.wrist", "observation.image"


def write_robot_folder(folder: Path, *, version: str = "v2.1", clips: bool = True) -> Path:
    """Frame f of episode e has the action [e, f], the state [f, 0, e] and shows 100 e + f."""
    (folder / "meta").mkdir(parents=True)
    for episode, length in enumerate(LENGTHS):
        _write_table(folder / f"data/chunk-000/episode_{episode:06d}.parquet", episode, length)
        for camera in (TOP, WRIST):
            path = folder / f"videos/chunk-000/{camera}/episode_{episode:06d}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            if clips:
                write_clip(path, ClipSpec(frames=length, fps=FPS, first=100 * episode))
    (folder / "meta/info.json").write_text(json.dumps(_info(version)))
    episodes = [{"episode_index": e, "tasks": [TASKS[e]], "length": n} for e, n in enumerate(LENGTHS)]
    write_lines(folder / "meta/episodes.jsonl", episodes)
    write_lines(folder / "meta/tasks.jsonl", [{"task_index": n, "task": text} for n, text in enumerate(TASKS)])
    return folder


def write_lines(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_table(path: Path, episode: int, length: int) -> None:
    picture = BytesIO()
    Image.new("RGB", (32, 28)).save(picture, "PNG")
    rows = [
        {
            "observation.state": [float(frame), 0.0, float(episode)],
            "action": [float(episode), float(frame)],
            STILL: {"bytes": picture.getvalue(), "path": f"frame_{frame:06d}.png"},
            "timestamp": frame / FPS,
            "frame_index": frame,
            "episode_index": episode,
            "task_index": episode,
        }
        for frame in range(length)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def _info(version: str) -> dict:
    video = {"dtype": "video", "shape": [48, 80, 3], "names": ["height", "width", "channel"]}
    return {
        "codebase_version": version,
        "fps": FPS,
        "chunks_size": 1000,
        "splits": {"train": "0:1", "val": "1:2", "odd": "all"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": {
            "observation.state": {"dtype": "float32", "shape": [3]},
            "action": {"dtype": "float32", "shape": [2]},
            STILL: {"dtype": "image", "shape": [28, 32, 3]},
            TOP: video,
            WRIST: video,
        },
    }
