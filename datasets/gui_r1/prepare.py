"""Rows of the card `gui_r1` from the Parquet files of GUI-R1-3K:

    python datasets/gui_r1/prepare.py GUI-R1-3K/train.parquet --out data/gui_r1/train.jsonl

Read are the columns image, instruction, history, gt_action, gt_bbox (x1, y1, x2, y2, or x, y, in 0..1) and
gt_input_text. Only clicks have a place: the numbers that other actions carry there are placeholders.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import PublishedRow, main, picture_file, published_rows
from mmrl.errors import DataError

WITHOUT_TEXT = ("", "no input text")


def make(source: Path, folder: Path) -> Iterator[dict[str, Any]]:
    for row in published_rows(source):
        yield {
            "id": row.origin,
            "instruction": row["instruction"],
            "history": row["history"],
            "image": picture_file(row, "image", folder),
            "answer": action(row),
            **{name: row[name] for name in ("group", "ui_type") if name in row},
        }


def action(row: PublishedRow) -> dict[str, Any]:
    """The demonstrated action, with as much as there is of it."""
    kind, text = row["gt_action"], row["gt_input_text"]
    answer: dict[str, Any] = {"action": kind}
    if kind == "click":
        place = row["gt_bbox"]
        if not place or len(place) not in (2, 4) or not all(0 <= v <= 1 for v in place):
            raise DataError(f"gt_bbox of a click is {place!r}, not a box or point in 0..1", where=row.origin)
        answer["box" if len(place) == 4 else "point"] = place
    if isinstance(text, str) and text.strip().lower() not in WITHOUT_TEXT:
        answer["input_text"] = text
    return answer


if __name__ == "__main__":
    main(__doc__, make)
