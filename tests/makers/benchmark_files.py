"""What the writers of benchmark files share: how many rows, pictures, file formats."""

import base64
import csv
import json
from pathlib import Path
from typing import Any

from makers.media import picture_bytes

ROWS = 3


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_tsv(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def base64_picture(seed: int) -> str:
    """A picture as tables hold it."""
    return base64.b64encode(picture_bytes(seed)).decode()


def picture(seed: int) -> dict[str, Any]:
    """A picture as image columns of Parquet files hold it."""
    return {"bytes": picture_bytes(seed), "path": f"{seed}.png"}
