"""Rows of the card `pubtabnet` from PubTabNet's annotations, each table written out as HTML:

    python datasets/pubtabnet/prepare.py PubTabNet_2.0.0.jsonl --split train --images pubtabnet --out data/tables.jsonl

Pictures lie in the folder of the split: pubtabnet/train/PMC1064074_007_00.png.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import PublishedRow, main, published_rows
from mmrl.errors import DataError


def make(source: Path, folder: Path, *, split: str, images: Path) -> Iterator[dict[str, Any]]:
    for row in published_rows(source):
        if row["split"] == split:
            yield {
                "id": row["filename"],
                "question": "Transcribe this table.",
                "image": str((images / split / row["filename"]).absolute()),
                "table": html(row),
            }


def html(row: PublishedRow) -> str:
    """The table: the tokens of its structure with each cell's own tokens in front of the cell's end tag."""
    cells = iter(row["html"]["cells"])
    written: list[str] = []
    for token in row["html"]["structure"]["tokens"]:
        if token == "</td>":
            cell = next(cells, None)
            if cell is None:
                raise DataError("the structure has more cells than `cells`", where=row.origin)
            written += cell["tokens"]
        written.append(token)
    if next(cells, None) is not None:
        raise DataError("`cells` has more cells than the structure", where=row.origin)
    return f"<table>{''.join(written)}</table>"


if __name__ == "__main__":
    options = {
        "split": {"default": "train", "help": "train or val"},
        "images": {"type": Path, "required": True, "help": "folder that holds the folders of the splits"},
    }
    main(__doc__, make, options=options)
