"""Rows of the card `osworld_g` from OSWorld-G, its JSON file with a folder of pictures or its Parquet files:

    python datasets/osworld_g/prepare.py OSWorld-G.json --images images --out data/osworld_g.jsonl
    python datasets/osworld_g/prepare.py OSWorld-G/test-*.parquet --out data/osworld_g.jsonl

`box_type` says what `box_coordinates` are: bbox x, y, width, height; polygon x, y of each corner in a row (of four
numbers two corners of a box); refusal nothing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import PublishedRow, corners, main, picture_file, published_rows
from mmrl.errors import DataError


def make(source: Path, folder: Path, *, images: Path | None = None) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(published_rows(source), start=1):
        if images is None:
            image = picture_file(row, "image", folder)
        else:
            image = str((images / row["image_path"]).absolute())
        yield {
            "id": str(row.get("id", f"{source.stem}:{number}")),
            "instruction": row["instruction"],
            "image": image,
            "target": target(row),
            "kind": row["box_type"],
        }


def target(row: PublishedRow) -> Any:
    """What a click must hit, as a card has it."""
    kind = row["box_type"]
    if kind == "refusal":
        return {"action": "refuse"}
    numbers = row["box_coordinates"]
    if kind == "bbox":
        return corners(row, numbers)
    if kind != "polygon" or len(numbers) < 4 or len(numbers) % 2:
        raise DataError(f"{kind} {numbers!r} is no bbox, polygon or refusal", where=row.origin)
    xs, ys = numbers[::2], numbers[1::2]
    if len(xs) == 2:
        return [min(xs), min(ys), max(xs), max(ys)]
    return {"polygon": [list(corner) for corner in zip(xs, ys, strict=True)]}


if __name__ == "__main__":
    main(__doc__, make, options={"images": {"type": Path, "default": None, "help": "folder of the pictures"}})
