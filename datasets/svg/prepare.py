"""Rows of the card `svg` from drawings, each with its picture:

    python datasets/svg/prepare.py svg-icons/test-*.parquet --out data/svg/test.jsonl --svg Svg --name Filename

A drawing that does not render, or has text in it (which depends on the machine's fonts), makes no row; their number is
said at the end.
"""

import hashlib
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from mmrl.data.made_rows import main, published_rows
from mmrl.scoring.svg import is_allowed, render_svg


def make(source: Path, folder: Path, *, svg: str, name: str, width: int) -> Iterator[dict[str, Any]]:
    left_out = 0
    for row in published_rows(source):
        picture = render_svg(row[svg], width=width, time_limit_s=10.0) if is_allowed(row[svg]) else None
        if picture is None:
            left_out += 1
            continue
        file = BytesIO()
        Image.fromarray(picture).save(file, "PNG")
        path = folder / "images" / f"{hashlib.sha256(file.getvalue()).hexdigest()[:24]}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.getvalue())
        question = "Write SVG code that draws this picture."
        image = path.relative_to(folder).as_posix()
        yield {"id": str(row[name]), "question": question, "image": image, "svg": row[svg]}
    if left_out:
        print(f"{source}: {left_out} drawings left out", file=sys.stderr)


if __name__ == "__main__":
    options = {
        "svg": {"default": "Svg", "help": "column of the code"},
        "name": {"default": "Filename", "help": "column of the name, the row's id"},
        "width": {"type": int, "default": 512, "help": "pixels of the pictures"},
    }
    main(__doc__, make, options=options)
