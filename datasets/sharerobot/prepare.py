"""Rows of the card `sharerobot` from ShareRobot's affordance or trajectory annotations:

    python datasets/sharerobot/prepare.py affordance.json --images images --out data/regions.jsonl
    python datasets/sharerobot/prepare.py trajectory.json --images images --out data/paths.jsonl

An entry has `id`, the path of its picture below `--images` (`--suffix .jpg` where the id lacks it), `instruction`, and
`affordance` (x, y, width, height) or `points`, in pixels of the size that `meta_data` states.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.image import image_size
from mmrl.data.made_rows import PublishedRow, corners, main, published_rows
from mmrl.errors import DataError


def make(source: Path, folder: Path, *, images: Path, suffix: str) -> Iterator[dict[str, Any]]:
    for row in published_rows(source):
        image = (images / f"{row['id']}{suffix}").absolute()
        check_size(row, image)
        if "affordance" in row:
            area = row["affordance"]
            place = {"region": corners(row, [area[key] for key in ("x", "y", "width", "height")])}
        else:
            place = {"path": row["points"]}
        yield {"id": str(row["id"]), "instruction": row["instruction"], "image": str(image), **place}


def check_size(row: PublishedRow, image: Path) -> None:
    """DataError where the picture is not of the size that the annotation's pixels count in."""
    meta = row["meta_data"]
    stated = meta["original_width"], meta["original_height"]
    if image_size(image) != stated:
        found = "x".join(map(str, image_size(image)))
        raise DataError(f"{image} has {found} pixels, its annotation {stated[0]}x{stated[1]}", where=row.origin)


if __name__ == "__main__":
    options = {
        "images": {"type": Path, "required": True, "help": "folder of the pictures"},
        "suffix": {"default": "", "help": "what the ids lack of their file names"},
    }
    main(__doc__, make, options=options)
