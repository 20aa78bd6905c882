"""Rows of a LeRobot dataset folder, v2.0 and v2.1: one a frame (or every k-th) of every episode.

    meta/info.json       version, fps, features, where the files are, splits
    meta/episodes.jsonl  length of each episode
    meta/tasks.jsonl     text of each task
    meta/action_stats.json   percentiles of the actions, where datasets/lerobot/prepare.py has written them
    data/chunk-000/episode_000000.parquet                        action, state, timestamp, ... of an episode's frames
    videos/chunk-000/observation.images.top/episode_000000.mp4   what a camera saw of it

A row: prompt (text of the task), images and videos (the cameras), answer (the action), proprio (the state), id,
action_stats ({name of the folder: percentiles}, where there are some), and every other column of the Parquet file.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from mmrl.config.schema import RobotSection
from mmrl.errors import DataError, type_words

INFO = Path("meta/info.json")
ACTION_STATS = Path("meta/action_stats.json")
_VERSIONS = ("v2.0", "v2.1")
_KEPT_EPISODES = 4


@dataclass(frozen=True)
class Layout:
    """What meta/info.json says. cameras: feature -> `video` or `image`, in the order in which a row shows them.

    hidden: columns of the other cameras.
    """

    folder: Path
    fps: float
    chunks_size: int
    data_path: str
    video_path: str | None
    cameras: Mapping[str, str]
    hidden: frozenset[str]

    def file(self, template: str, episode: int, *, camera: str | None = None) -> Path:
        chunk = episode // self.chunks_size
        return self.folder / template.format(episode_chunk=chunk, episode_index=episode, video_key=camera)


@dataclass(frozen=True, eq=False)
class LeRobotRows:
    """The frames of the chosen episodes. starts: number of the first row of each of them, and of all rows.

    stats: percentiles of the actions (`q01`, `q99`, `mask`); None: the folder has none.
    """

    layout: Layout
    robot: RobotSection
    episodes: tuple[int, ...]
    lengths: tuple[int, ...]
    tasks: Mapping[int, str]
    starts: tuple[int, ...]
    stats: Mapping[str, Any] | None = None
    kept: dict[int, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.starts[-1]

    def origin(self, number: int) -> str:
        place, frame = self._frame(number)
        return f"{self._data_file(self.episodes[place]).name}:{frame + 1}"

    def read(self, number: int) -> dict[str, Any]:
        try:
            return self._row(number)
        except DataError as error:
            raise DataError(error.reason, where=self.origin(number)) from error

    def _row(self, number: int) -> dict[str, Any]:
        place, frame = self._frame(number)
        episode = self.episodes[place]
        values: dict[str, Any] = self._table(place).slice(frame, 1).to_pylist()[0]
        videos, images = self._cameras(episode, frame, values)
        seen = {*self.layout.cameras, *self.layout.hidden}
        renamed = {"action": "answer", "observation.state": "proprio"}
        stats = {} if self.stats is None else {"action_stats": {self.layout.folder.stem: self.stats}}
        return {
            "id": f"{episode}:{frame}",
            "prompt": self._task(values.get("task_index")),
            "images": images,
            "videos": videos,
            **stats,
            **{renamed.get(column, column): value for column, value in values.items() if column not in seen},
        }

    def _frame(self, number: int) -> tuple[int, int]:
        """(place of the row's episode among the chosen ones, frame of the episode)."""
        place = bisect_right(self.starts, number) - 1
        return place, (number - self.starts[place]) * self.robot.frame_stride

    def _data_file(self, episode: int) -> Path:
        return self.layout.file(self.layout.data_path, episode)

    def _table(self, place: int) -> Any:
        """The Parquet file of an episode; the last few are kept, so reading in order opens each once."""
        import pyarrow.parquet

        if place not in self.kept:
            path = self._data_file(self.episodes[place])
            if not path.is_file():
                raise DataError(f"no such file: {path}")
            table = pyarrow.parquet.read_table(path)
            if table.num_rows != self.lengths[place]:
                raise DataError(f"the file has {table.num_rows} rows, meta/episodes.jsonl says {self.lengths[place]}")
            while len(self.kept) >= _KEPT_EPISODES:
                del self.kept[next(iter(self.kept))]
            self.kept[place] = table
        return self.kept[place]

    def _task(self, number: Any) -> str:
        if number not in self.tasks:
            raise DataError(f"task_index {number!r} is not in meta/tasks.jsonl")
        return self.tasks[number]

    def _cameras(self, episode: int, frame: int, values: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
        """The media cells of a row: clips of its cameras, pictures of those that store pictures."""
        layout = self.layout
        # A quarter of a frame to both sides, so that no rounding of a file's times adds a frame or drops one.
        slack, time = 0.25 / layout.fps, frame / layout.fps
        span = {"start_s": max(0.0, time - self.robot.clip_seconds - slack), "end_s": time + slack}
        videos = [
            {"video": str(layout.file(layout.video_path or "", episode, camera=name)), **span}
            for name, dtype in layout.cameras.items()
            if dtype == "video"
        ]
        return videos, [values[name] for name, dtype in layout.cameras.items() if dtype == "image"]


def open_lerobot(folder: Path, *, split: str | None, robot: RobotSection) -> LeRobotRows:
    """The rows of a folder that has meta/info.json. split: one of info's; None: all episodes.

    DataError for another version than v2.0 and v2.1, an unknown camera or split, a metadata file that is not right.
    """
    info = _json((folder / INFO).read_bytes(), folder / INFO)
    version = info.get("codebase_version")
    if version not in _VERSIONS:
        raise DataError(
            f"{folder}: a LeRobot dataset of version {version!r}; {' and '.join(_VERSIONS)} are read, "
            "take the dataset's revision of that name"
        )
    layout = _layout(folder, info, robot)
    lengths = {line["episode_index"]: line["length"] for line in _lines(folder / "meta/episodes.jsonl")}
    tasks = {line["task_index"]: line["task"] for line in _lines(folder / "meta/tasks.jsonl")}
    first, end = _episode_range(folder, info, split)
    chosen = tuple(episode for episode in sorted(lengths) if first <= episode and (end is None or episode < end))
    frames = [-(-lengths[episode] // robot.frame_stride) for episode in chosen]
    counts = tuple(lengths[episode] for episode in chosen)
    stats = folder / ACTION_STATS
    found = _json(stats.read_bytes(), stats) if stats.is_file() else None
    return LeRobotRows(layout, robot, chosen, counts, tasks, tuple(accumulate(frames, initial=0)), stats=found)


def _layout(folder: Path, info: Mapping[str, Any], robot: RobotSection) -> Layout:
    try:
        features = {name: feature["dtype"] for name, feature in info["features"].items()}
        known = {name: dtype for name, dtype in features.items() if dtype in ("video", "image")}
        unknown = [name for name in robot.cameras if name not in known]
        if unknown:
            raise DataError(f"{folder}: no camera {unknown[0]!r}; the dataset has: {', '.join(known) or 'none'}")
        cameras = {name: known[name] for name in robot.cameras or known}
        return Layout(
            folder,
            fps=float(info["fps"]),
            chunks_size=info["chunks_size"],
            data_path=info["data_path"],
            video_path=info.get("video_path"),
            cameras=cameras,
            hidden=frozenset(known.keys() - cameras.keys()),
        )
    except KeyError as error:
        raise DataError(f"{folder / INFO}: no key {error.args[0]!r}") from error


def _episode_range(folder: Path, info: Mapping[str, Any], split: str | None) -> tuple[int, int | None]:
    """First episode of a split and the one behind its last; info writes it as `0:50`."""
    if split is None:
        return 0, None
    splits = info.get("splits") or {}
    if split not in splits:
        raise DataError(f"{folder}: no split {split!r}; meta/info.json has: {', '.join(splits) or 'none'}")
    first, _, end = str(splits[split]).partition(":")
    if not (first.isdigit() and end.isdigit()):
        raise DataError(f"{folder / INFO}: the split {split!r} must be first:end, not {splits[split]!r}")
    return int(first), int(end)


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise DataError(f"no such file: {path}")
    with path.open("rb") as file:
        return [_json(line, f"{path}:{number}") for number, line in enumerate(file, start=1) if line.strip()]


def _json(raw: bytes, place: object) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except ValueError as error:  # not UTF-8, or no JSON
        raise DataError(f"{place}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise DataError(f"{place}: must be a JSON object, this is {type_words(value)}")
    return value
