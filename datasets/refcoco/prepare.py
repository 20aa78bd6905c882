"""Rows of the card `refcoco` from RefCOCO's Parquet files, a row for each expression:

    python datasets/refcoco/prepare.py refcoco/*.parquet --out data/refcoco/train.jsonl

Read are the columns question_id, image, answer (the expressions) and bbox (x, y, width, height in pixels).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import corners, main, picture_file, published_rows


def make(source: Path, folder: Path) -> Iterator[dict[str, Any]]:
    for row in published_rows(source):
        box, image = corners(row, row["bbox"]), picture_file(row, "image", folder)
        for number, expression in enumerate(row["answer"]):
            yield {"id": f"{row['question_id']}:{number}", "expression": expression, "box": box, "image": image}


if __name__ == "__main__":
    main(__doc__, make)
