"""Rows of the card `mm_mt_bench` from MM-MT-Bench's Parquet files, one row for each question of a conversation:

python datasets/mm_mt_bench/prepare.py MM-MT-Bench/eval-*.parquet --out MM-MT-Bench/rows.jsonl
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, picture_file, published_rows
from mmrl.errors import DataError

PICTURES = ("image", "image_url")


def make(source: Path, folder: Path) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(published_rows(source)):
        published = row["conversation"]
        turns = json.loads(published) if isinstance(published, str) else published
        roles = [turn["role"] for turn in turns]
        if not turns or roles != ["user", "assistant"] * (len(roles) // 2):
            raise DataError(f"the conversation's roles are {roles}, not user and assistant in turn", where=row.origin)
        image = picture_file(row, "image", folder)
        messages = [{"role": turn["role"], "content": content(turn["content"], image)} for turn in turns]
        for place in range(0, len(messages), 2):
            yield {
                "id": f"{source.stem}:{number}_{place // 2}",
                "messages": messages[: place + 1],
                "reference": words(messages[place + 1]["content"]),
                "category": row.get("category"),
                "turn": place // 2 + 1,
                "conversation": f"{source.stem}:{number}",
            }


def content(published: Any, image: str) -> Any:
    """The parts of a message, its picture by the file's name."""
    if isinstance(published, str):
        return published
    return [
        {"type": "image", "image": image} if part.get("type") in PICTURES else {"type": "text", "text": part["text"]}
        for part in published
    ]


def words(found: Any) -> str:
    if isinstance(found, str):
        return found.strip()
    return "".join(part["text"] for part in found if part["type"] == "text").strip()


if __name__ == "__main__":
    main(__doc__, make)
