"""Rows of the card `cord` from the Parquet files of CORD v2:

    python datasets/cord/prepare.py cord-v2/train-*.parquet --out data/cord/train.jsonl

Read are the columns image and ground_truth, a JSON text whose `gt_parse` holds the fields of the receipt.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, picture_file, published_rows
from mmrl.errors import DataError


def make(source: Path, folder: Path) -> Iterator[dict[str, Any]]:
    for row in published_rows(source):
        try:
            fields = json.loads(row["ground_truth"])["gt_parse"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"ground_truth is no JSON text with a key gt_parse: {error}", where=row.origin) from error
        image = picture_file(row, "image", folder)
        yield {"id": row.origin, "question": "Read this receipt.", "image": image, "fields": fields}


if __name__ == "__main__":
    main(__doc__, make)
