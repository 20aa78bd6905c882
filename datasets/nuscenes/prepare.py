"""Rows of the card `nuscenes` from the tables of nuScenes, one for each key frame with 3 s ahead and one frame behind:

    python datasets/nuscenes/prepare.py nuscenes/v1.0-trainval --out data/nuscenes/train.jsonl [--scenes scenes.txt]

waypoints: where the car was 0.5, 1, .. 3 s later, in its frame at time 0 (x ahead, y to the left). speed: over the
half second before. decision: stop (below 0.5 m/s in the end), accelerate or decelerate (by more than 1 m/s), else keep;
left_turn or right_turn (more than 2 m aside after 3 s), else straight. instruction: the side of the decision, as
open-loop planners on nuScenes are told it; a prompt for decisions must leave it out. agents: annotated things within
50 m, with their poses as long as they are annotated. `--scenes` names the scenes (one a line) of a split; without it
all.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main
from mmrl.errors import DataError

DT_S, AHEAD = 0.5, 6
NEAR_M = 50.0
STOPPED_MPS, CHANGE_MPS, ASIDE_M = 0.5, 1.0, 2.0
INSTRUCTIONS = {"left_turn": "turn left", "right_turn": "turn right", "straight": "go straight"}

Pose = tuple[float, float, float]  # x, y in metres, heading in radians


@dataclass(frozen=True)
class Drive:
    """One scene: tokens of its key frames in order, pictures and poses of the car there, and things by frame."""

    frames: list[str]
    pictures: dict[str, str]
    poses: dict[str, Pose]
    things: dict[str, dict[str, tuple[Pose, list[float]]]]


def make(source: Path, folder: Path, *, scenes: Path | None) -> Iterator[dict[str, Any]]:
    wanted = None if scenes is None else set(scenes.read_text(encoding="utf-8").split())
    for drive in drives(source, wanted):
        for number in range(1, len(drive.frames) - AHEAD):
            yield row(drive, number, root=source.parent)


def drives(tables: Path, wanted: set[str] | None) -> Iterator[Drive]:
    samples = {entry["token"]: entry for entry in table(tables, "sample")}
    poses = {entry["token"]: pose(entry) for entry in table(tables, "ego_pose")}
    front = {
        entry["sample_token"]: entry
        for entry in table(tables, "sample_data")
        if entry["is_key_frame"] and entry["filename"].startswith("samples/CAM_FRONT/")
    }
    things: dict[str, dict[str, tuple[Pose, list[float]]]] = defaultdict(dict)
    for entry in table(tables, "sample_annotation"):
        width, length, _ = entry["size"]
        things[entry["sample_token"]][entry["instance_token"]] = pose(entry), [length, width]
    for scene in table(tables, "scene"):
        if wanted is not None and scene["name"] not in wanted:
            continue
        frames, token = [], scene["first_sample_token"]
        while token:
            frames.append(token)
            token = samples[token]["next"]
        yield Drive(
            frames,
            {frame: front[frame]["filename"] for frame in frames},
            {frame: poses[front[frame]["ego_pose_token"]] for frame in frames},
            things,
        )


def table(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / f"{name}.json"
    if not path.is_file():
        raise DataError(f"no such file: {path}; the source is the folder of nuScenes' tables, such as v1.0-mini")
    return json.loads(path.read_bytes())


def pose(entry: dict[str, Any]) -> Pose:
    """Place and heading of an entry with a translation and a rotation, a quaternion w, x, y, z."""
    (x, y, _), (w, i, j, k) = entry["translation"], entry["rotation"]
    return x, y, math.atan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k))


def seen_from(origin: Pose, other: Pose) -> list[float]:
    """The other pose in the frame of the first.

    >>> seen_from((1.0, 2.0, math.pi / 2), (1.0, 5.0, math.pi / 2))
    [3.0, 0.0, 0.0]
    """
    dx, dy, turn = other[0] - origin[0], other[1] - origin[1], other[2] - origin[2]
    cos, sin = math.cos(origin[2]), math.sin(origin[2])
    heading = math.atan2(math.sin(turn), math.cos(turn))
    return [round(v, 3) + 0.0 for v in (cos * dx + sin * dy, cos * dy - sin * dx, heading)]


def row(drive: Drive, number: int, *, root: Path) -> dict[str, Any]:
    before, now, *later = drive.frames[number - 1 : number + AHEAD + 1]
    origin = drive.poses[now]
    waypoints = [seen_from(origin, drive.poses[frame])[:2] for frame in later]
    speed = math.dist(origin[:2], drive.poses[before][:2]) / DT_S
    speed_word, path_word = decision(speed, waypoints)
    return {
        "id": now,
        "situation": f"You drive at {speed:.1f} m/s.",
        "instruction": INSTRUCTIONS[path_word],
        "image": str((root / drive.pictures[now]).absolute()),
        "speed": round(speed, 3),
        "dt": DT_S,
        "waypoints": waypoints,
        "decision": f"{speed_word}, {path_word}",
        "agents": agents(drive, origin, [now, *later]),
    }


def decision(speed: float, waypoints: list[list[float]]) -> tuple[str, str]:
    """What was done, in words, by the thresholds above.

    >>> decision(8.0, [[2, 0], [4, 0], [6, 0], [8, 1], [10, 2], [12, 4]]), decision(2.0, [[0.1, 0.0]] * 6)
    (('decelerate', 'left_turn'), ('stop', 'straight'))
    """
    last = math.dist(waypoints[-1], waypoints[-2]) / DT_S
    change = "accelerate" if last - speed > CHANGE_MPS else "decelerate" if speed - last > CHANGE_MPS else "keep"
    aside = waypoints[-1][1]
    side = "left_turn" if aside > ASIDE_M else "right_turn" if aside < -ASIDE_M else "straight"
    return "stop" if last < STOPPED_MPS else change, side


def agents(drive: Drive, origin: Pose, frames: list[str]) -> list[dict[str, Any]]:
    """Size and poses of what is near at time 0, until the first frame in which it is not annotated."""
    found = []
    for thing, (place, size) in drive.things[frames[0]].items():
        if math.dist(place[:2], origin[:2]) > NEAR_M:
            continue
        poses = []
        for frame in frames:
            if thing not in drive.things[frame]:
                break
            poses.append(seen_from(origin, drive.things[frame][thing][0]))
        found.append({"size": size, "poses": poses})
    return found


if __name__ == "__main__":
    main(__doc__, make, options={"scenes": {"type": Path, "default": None, "help": "file with names of scenes"}})
