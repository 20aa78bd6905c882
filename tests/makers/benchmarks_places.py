"""Rows of the shipped benchmarks of screens, pages, driving, robots, medicine, puzzles and drawings."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from makers.benchmark_files import ROWS, picture, write_jsonl, write_parquet
from makers.media import picture_bytes, write_pdf
from makers.recipe_rows import prepared
from makers.robots import write_robot_folder

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="{n}" height="8" fill="red"/></svg>'
TABLE = "<table><tr><td>a</td><td>b</td></tr></table>"
PATH = [[1.0 * step, 0.0] for step in range(1, 7)]


def _files(folder: Path, *, suffix: str = ".png") -> list[str]:
    """Names of a picture for each row, in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(ROWS):
        (folder / f"{n}{suffix}").write_bytes(picture_bytes(n))
    return [f"{n}{suffix}" for n in range(ROWS)]


def _screen(n: int) -> dict[str, Any]:
    return {"instruction": "close", "data_type": ("icon", "text")[n % 2], "data_source": "windows"}


def _screenspot(root: Path, name: str = "ScreenSpot") -> None:
    rows = [{"bbox": [0.1, 0.1, 0.4, 0.3], **_screen(n), "image": picture(n)} for n in range(ROWS)]
    write_parquet(root / name / "test-00000-of-00001.parquet", rows)


def _screenspot_v2(root: Path) -> None:
    folder = root / "ScreenSpot-v2"
    rows = [
        {"img_filename": file, "bbox": [10, 10, 30, 20], **_screen(n)}
        for n, file in enumerate(_files(folder / "screenspotv2_image"))
    ]
    (folder / "screenspot_desktop_v2.json").write_text(json.dumps(rows[:2]))
    (folder / "screenspot_web_v2.json").write_text(json.dumps(rows[2:]))


def _osworld_g(root: Path) -> None:
    kinds = (("bbox", [10, 10, 30, 20]), ("polygon", [0, 0, 90, 0, 0, 70]), ("refusal", [-1, -1, -1, -1]))
    rows = [
        {"id": f"a-{n}", "instruction": "save", "box_type": kind, "box_coordinates": place, "image": picture(n)}
        for n, (kind, place) in enumerate(kinds)
    ]
    write_parquet(root / "OSWorld-G" / "test-00000-of-00001.parquet", rows)
    prepared("osworld_g", root / "OSWorld-G" / "test-00000-of-00001.parquet", root / "OSWorld-G" / "rows.jsonl")


def _ocrbench(root: Path) -> None:
    kinds = (("IIIT5K", "Regular Text Recognition"), ("HME100k", "Handwritten Mathematical Expression Recognition"))
    rows = [
        {"dataset": name, "question": "what is written?", "question_type": kind, "answer": ["x^{2}"]}
        | {"image": picture(n)}
        for n, (name, kind) in enumerate((*kinds, kinds[0]))
    ]
    write_parquet(root / "OCRBench" / "test-00000-of-00001.parquet", rows)


def _olmocr_bench(root: Path) -> None:
    folder = root / "olmOCR-bench"
    (folder / "bench_data" / "pdfs").mkdir(parents=True)
    tests = []
    for n in range(ROWS):
        write_pdf(folder / "bench_data" / "pdfs" / f"{n}.pdf", pages=1)
        place = {"pdf": f"{n}.pdf", "page": 1, "checked": "verified", "url": None}
        tests += [{**place, "id": f"{n}_{k}", "type": "present", "text": f"text {k}"} for k in range(n + 1)]
    source = folder / "bench_data" / "multi_column.jsonl"
    write_jsonl(source, tests)
    prepared("olmocr_bench", source, folder / "rows.jsonl", pdfs=source.parent / "pdfs", by_file=True)


def _pubtabnet(root: Path) -> None:
    folder = root / "PubTabNet"
    rows = [
        {"id": file, "question": "Transcribe this table.", "image": file, "table": TABLE} for file in _files(folder)
    ]
    write_jsonl(folder / "val.jsonl", rows)


def _drivelm(root: Path) -> None:
    cameras = ("CAM_FRONT", "CAM_BACK")
    for camera in cameras:
        _files(root / "nuscenes_pictures" / "samples" / camera, suffix=".jpg")
    match = "Firstly notice that <c3,CAM_FRONT,1043.2,82.2>, then <c1,CAM_BACK,1088.3,497.5>."
    entries = [{"Q": "What is noticed?", "A": match, "tag": [3]}, {"Q": "A. Ahead. B. Left.", "A": "B", "tag": [0]}]
    unasked = [{"Q": "Why?", "A": "To wait.", "tag": [1]}]
    scenes = {
        f"scene{n}": {
            "key_frames": {
                f"frame{n}": {
                    "QA": {
                        "perception": entries[1:],
                        "prediction": entries[:1],
                        "planning": unasked,
                        "behavior": [{**unasked[0], "tag": [1, 2]}],
                    },
                    "image_paths": {camera: f"../nuscenes/samples/{camera}/{n}.jpg" for camera in cameras},
                }
            }
        }
        for n in range(2)
    }
    folder = root / "DriveLM"
    folder.mkdir(exist_ok=True)
    (folder / "val.json").write_text(json.dumps(scenes))
    prepared("drivelm", folder / "val.json", folder / "rows.jsonl", images=root / "nuscenes_pictures")


def _nuscenes(root: Path) -> None:
    rows = [
        {"id": file, "situation": "You drive at 2.0 m/s.", "instruction": "go straight", "image": file, "speed": 2.0}
        | {"dt": 0.5, "waypoints": PATH, "decision": "keep, straight", "agents": []}
        for file in _files(root / "nuscenes")
    ]
    write_jsonl(root / "nuscenes" / "val.jsonl", rows)


def _navsim(root: Path) -> None:
    scene = {"agents": [], "drivable": [[[-10, -4], [60, -4], [60, 4], [-10, 4]]], "route": [[-5, 0], [60, 0]]}
    rows = [
        {"id": file, "situation": "You drive at 2.0 m/s.", "instruction": "go straight", "image": file, "speed": 2.0}
        | {"dt": 0.5, "waypoints": PATH, **scene}
        for file in _files(root / "navsim")
    ]
    write_jsonl(root / "navsim" / "rows.jsonl", rows)


def _robot_actions(root: Path) -> None:
    write_robot_folder(root / "robot_episodes")


def _sharerobot(root: Path, kind: str, out: str) -> None:
    place = {
        "affordance": {"affordance": {"x": 10, "y": 10, "width": 30, "height": 20}},
        "trajectory": {"points": [[10, 10], [50, 10]]},
    }[kind]
    size = {"original_width": 100, "original_height": 80}
    rows = [
        {"id": file, "instruction": "lift the fork", "meta_data": size, **place}
        for file in _files(root / "ShareRobot" / "images")
    ]
    source = root / "ShareRobot" / f"{kind}.json"
    source.write_text(json.dumps(rows))
    prepared("sharerobot", source, root / "ShareRobot" / out, images=root / "ShareRobot" / "images", suffix="")


def _medical(root: Path, name: str) -> None:
    pairs = (("Is it a fracture?", "yes"), ("Which organ?", "left lung"), ("Which plane?", "axial"))
    rows = [{"image": picture(n), "question": question, "answer": said} for n, (question, said) in enumerate(pairs)]
    write_parquet(root / name / "test-00000-of-00001.parquet", rows)


def _slake(root: Path) -> None:
    answers = (("Yes", "CLOSED"), ("Left lung", "OPEN"), ("X-Ray", "CLOSED"))
    rows = []
    for n, (said, kind) in enumerate(answers):
        _files(root / "SLAKE" / "imgs" / f"xmlab{n}")
        facts = {"qid": n, "img_id": n, "img_name": f"xmlab{n}/{n}.png", "modality": "CT", "content_type": "Organ"}
        rows.append({**facts, "question": "Which?", "answer": said, "q_lang": "en", "answer_type": kind})
    rows.append({**rows[0], "qid": 9, "q_lang": "zh", "answer": "是"})
    (root / "SLAKE" / "test.json").write_text(json.dumps(rows, ensure_ascii=False))


def _blink_jigsaw(root: Path) -> None:
    choices = ["the second image", "the third image"]
    prompt = "Which piece is missing?\nSelect from the following choices.\n(A) the second image\n(B) the third image"
    pictures = {f"image_{k}": picture(k) for k in (1, 2, 3)}
    rows = [
        {"idx": f"val_Jigsaw_{n}", "sub_task": "Jigsaw", "question": "Which piece is missing?", **pictures}
        | {"image_4": None, "choices": choices, "answer": f"({'AB'[n % 2]})", "prompt": prompt}
        for n in range(ROWS)
    ]
    write_parquet(root / "BLINK" / "Jigsaw" / "val-00000-of-00001.parquet", rows)


def _svg_drawing(root: Path) -> None:
    question = "Write SVG code that draws this picture."
    rows = [
        {"id": file, "question": question, "image": file, "svg": SVG.format(n=n + 1)}
        for n, file in enumerate(_files(root / "svg"))
    ]
    write_jsonl(root / "svg" / "rows.jsonl", rows)


WRITERS: dict[str, Callable[[Path], None]] = {
    "screenspot": _screenspot,
    "screenspot_v2": _screenspot_v2,
    "screenspot_v2_shares": lambda root: _screenspot(root, "ScreenSpot_v2"),
    "osworld_g": _osworld_g,
    "ocrbench": _ocrbench,
    "olmocr_bench": _olmocr_bench,
    "pubtabnet_val": _pubtabnet,
    "drivelm": _drivelm,
    "drivelm_gpt": _drivelm,
    "drivelm_final": _drivelm,
    "nuscenes_open_loop": _nuscenes,
    "navsim_pdms": _navsim,
    "robot_actions": _robot_actions,
    "sharerobot_affordance": lambda root: _sharerobot(root, "affordance", "regions.jsonl"),
    "sharerobot_trajectory": lambda root: _sharerobot(root, "trajectory", "paths.jsonl"),
    "vqa_rad": lambda root: _medical(root, "VQA-RAD"),
    "path_vqa": lambda root: _medical(root, "PathVQA"),
    "slake_en": _slake,
    "blink_jigsaw": _blink_jigsaw,
    "svg_drawing": _svg_drawing,
}
