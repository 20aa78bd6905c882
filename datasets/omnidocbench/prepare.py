"""Rows of the card `omnidocbench` from OmniDocBench's annotation file, one row for each page:

    python datasets/omnidocbench/prepare.py OmniDocBench.json --images images --out OmniDocBench/rows.jsonl

Blocks that are one text, cut by a column or figure (`extra.relation`, truncated), become one where the first of them
is. `counts` says what of a page is scored; a page without tables has no score of tables.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, published_rows
from mmrl.errors import DataError
from mmrl.scoring.page_blocks import formula_of, letters_of

TEXT = ("text_block", "title", "code_txt", "code_txt_caption", "reference")
BESIDE = (
    *("equation_caption", "figure_caption", "figure_footnote", "table_caption", "table_footnote", "code_algorithm"),
    *("code_algorithm_caption", "header", "footer", "page_footnote", "page_number"),
)
ATTRIBUTES = ("data_source", "language", "layout")


def make(source: Path, folder: Path, *, images: Path) -> Iterator[dict[str, Any]]:
    for row in published_rows(source):
        info = row["page_info"]
        picture = images / Path(info["image_path"]).name
        if not picture.is_file():
            raise DataError(f"no such file: {picture}; name the folder by --images", where=row.origin)
        blocks = [block for item in merged(row) if (block := block_of(item)) is not None]
        yield {
            "id": picture.name,
            "question": "Transcribe this page.",
            "page": str(picture.absolute()),
            "blocks": blocks,
            "counts": counts_of(blocks),
            **{name: info.get("page_attribute", {}).get(name) for name in ATTRIBUTES},
        }


def merged(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The page's annotations, those that continue each other as one."""
    items = {item["anno_id"]: item for item in row["layout_dets"]}
    chains: list[set[Any]] = []
    for relation in (row.get("extra") or {}).get("relation") or ():
        if relation["relation_type"] == "truncated":
            pair = {relation["source_anno_id"], relation["target_anno_id"]} & items.keys()
            joined = [chain for chain in chains if chain & pair]
            chains = [chain for chain in chains if not chain & pair] + [pair.union(*joined)]
    parts = [sorted((items[number] for number in chain), key=lambda item: item["order"] or 0) for chain in chains]
    alone = items.keys() - set().union(*chains)
    whole = [{**of[0], "text": "".join(item.get("text") or "" for item in of)} for of in parts if of]
    return [*(item for number, item in items.items() if number in alone), *whole]


def block_of(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """None for what is not transcribed: figures, masks, things left out."""
    kind, order = item["category_type"], item.get("order")
    if kind in (*TEXT, *BESIDE):
        text = item.get("text") or ""
        return {"kind": "text", "text": text, "order": order, "counts": is_counted(kind)} if letters_of(text) else None
    if kind == "equation_isolated" and formula_of(latex := item.get("latex") or ""):
        return {"kind": "formula", "text": latex, "order": order}
    if kind == "table" and "<table" in (html := item.get("html") or ""):
        return {"kind": "table", "text": html, "order": order}
    return None


def is_counted(category: str) -> bool:
    return category not in BESIDE


def counts_of(blocks: list[dict[str, Any]]) -> dict[str, int]:
    """Each value that the reward has of the page, once: the benchmark's scores are means over pages."""
    texts = [block for block in blocks if block["kind"] == "text" and block["counts"]]
    kinds = {block["kind"] for block in blocks}
    named = [
        *(["text"] if texts else []),
        *(["order"] if any(block["order"] for block in texts) else []),
        *(["formula", "cdm"] if "formula" in kinds else []),
        *(["table", "table_structure", "table_edit"] if "table" in kinds else []),
    ]
    return dict.fromkeys(named, 1)


if __name__ == "__main__":
    main(__doc__, make, options={"images": {"type": Path, "required": True, "help": "folder of the page images"}})
