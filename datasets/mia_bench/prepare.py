"""Rows of the card `mia_bench` from MIA-Bench's Parquet files, with the components as a rubric:

python datasets/mia_bench/prepare.py MIA-Bench/test-*.parquet --out MIA-Bench/rows.jsonl
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, picture_file, published_rows
from mmrl.errors import DataError


def make(source: Path, folder: Path) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(published_rows(source)):
        components, weights = list(row["components"]), list(row["component_weight"])
        if not components or len(components) != len(weights):
            raise DataError(f"{len(components)} components and {len(weights)} weights; mend the row", where=row.origin)
        yield {
            "id": f"{source.stem}:{number}",
            "image": picture_file(row, "image", folder),
            "question": row["instruction"],
            "components": components,
            "component_type": list(row.get("component_type") or ()),
            "rubric": [{"text": text, "weight": weight} for text, weight in zip(components, weights, strict=True)],
        }


if __name__ == "__main__":
    main(__doc__, make)
