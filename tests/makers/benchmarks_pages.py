"""Rows of the shipped benchmarks of pages that are made of OmniDocBench's annotations."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from makers.benchmark_files import ROWS
from makers.media import picture_bytes
from makers.recipe_rows import prepared

TABLE = "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>"


def _item(number: int, kind: str, *, order: int | None = None, **content: str) -> dict[str, Any]:
    place = {"poly": [0, 0, 9, 0, 9, 9, 0, 9], "ignore": False, "attribute": {}, "line_with_spans": []}
    return {"category_type": kind, "anno_id": number, "order": order or number, **place, **content}


def pages() -> list[dict[str, Any]]:
    """A page of text that a column cuts, a page with a formula and a table, and a page of a picture and its caption."""
    cut = [
        _item(2, "text_block", text="that a column "),
        _item(1, "title", text="Head"),
        _item(3, "text_block", text="cuts."),
    ]
    mixed = [
        _item(1, "text_block", text="It holds:"),
        _item(2, "equation_isolated", latex="$$ a^{2} = b $$"),
        _item(3, "table", html=TABLE, latex="\\begin{tabular}{cc} a & b \\end{tabular}"),
        _item(4, "footer", order=None, text="page 2"),
    ]
    alone = [_item(1, "figure"), _item(2, "figure_caption", text="A tree.")]
    relation = {"source_anno_id": 2, "target_anno_id": 3, "relation_type": "truncated"}
    facts = {"data_source": "book", "language": "english", "layout": "single_column", "special_issue": []}
    return [
        {
            "layout_dets": items,
            "page_info": {"page_no": n, "height": 80, "width": 100, "image_path": f"{n}.jpg", "page_attribute": facts},
            "extra": {"relation": [relation] if n == 0 else []},
        }
        for n, items in enumerate((cut, mixed, alone))
    ]


def _omnidocbench(root: Path, rows: str) -> None:
    folder = root / "OmniDocBench"
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for n in range(ROWS):
        (folder / "images" / f"{n}.jpg").write_bytes(picture_bytes(n))
    (folder / "OmniDocBench.json").write_text(json.dumps(pages()))
    prepared("omnidocbench", folder / "OmniDocBench.json", folder / rows, images=folder / "images")


WRITERS: dict[str, Callable[[Path], None]] = {
    "omnidocbench_v1_0": lambda root: _omnidocbench(root, "rows_v1_0.jsonl"),
    "omnidocbench_v1_5": lambda root: _omnidocbench(root, "rows_v1_5.jsonl"),
    "omnidocbench_v1_5_cdm": lambda root: _omnidocbench(root, "rows_v1_5.jsonl"),
}
