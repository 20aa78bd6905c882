"""Rows of the card `drivelm` from DriveLM's JSON files on nuScenes, one for each question and way of scoring it:

    python datasets/drivelm/prepare.py v1_1_val_nus.json --images nuscenes --out data/drivelm/val.jsonl

`--images` is the folder that holds `samples/CAM_FRONT/..`. The numbers in `tag` become `kind`. The number of a question
within its frame counts as in the challenge: perception, prediction, planning, behavior.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main
from mmrl.errors import DataError

PARTS = ("perception", "prediction", "planning", "behavior")
KINDS = ("accuracy", "chatgpt", "language", "match")  # by tag


def make(source: Path, folder: Path, *, images: Path) -> Iterator[dict[str, Any]]:
    for scene, frames in json.loads(source.read_bytes()).items():
        for name, frame in frames["key_frames"].items():
            where = f"{source.name}: scene {scene}, frame {name}"
            pictures = {camera: picture(path, images, where) for camera, path in frame["image_paths"].items()}
            shared = {"cameras": list(pictures), "images": list(pictures.values()), "frame": name}
            for row in rows(frame["QA"], where):
                yield {**row, "id": f"{scene}_{name}_{row['id']}", **shared}


def rows(parts: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    questions = [(part, entry) for part in PARTS for entry in parts.get(part, ())]
    for number, (part, entry) in enumerate(questions):
        tags = entry.get("tag") or ()
        if not set(tags) <= set(range(len(KINDS))):
            raise DataError(f"{where}: question {number} has the tags {tags}, not numbers from 0 to 3")
        for kind in (KINDS[tag] for tag in tags):
            text = {"question": entry["Q"], "answer": entry["A"]}
            yield {"id": f"{number}_{kind}", **text, "kind": kind, "part": part}


def picture(path: str, images: Path, where: str) -> str:
    """The file of a camera: published paths begin with folders of the publisher's machine."""
    _, found, rest = path.partition("samples/")
    if not found:
        raise DataError(f"{where}: the path {path!r} has no folder samples/")
    return str((images / "samples" / rest).absolute())


if __name__ == "__main__":
    main(__doc__, make, options={"images": {"type": Path, "required": True, "help": "folder that holds samples/"}})
