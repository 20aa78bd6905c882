"""Rows of the card `mm_ifeval` from MM-IFEval's Parquet or TSV files, one for each question:

    python datasets/mm_ifeval/prepare.py MM-IFEval/test-*.parquet --out MM-IFEval/rows.jsonl

Rows that repeat a question without one of its constraints (`infer_type` other than main) are left out.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import PublishedRow, main, picture_file, published_rows
from mmrl.errors import DataError

PERCEPTION = "P-Level"
BY_RULE, BY_JUDGE = "rule_based", ("direct_gpt", "cmp_gpt")


def make(source: Path, folder: Path) -> Iterator[dict[str, Any]]:
    for row in published_rows(source):
        if row["infer_type"] != "main":
            continue
        if isinstance(row["image"], str):
            row["image"] = base64.b64decode(row["image"])
        yield {
            "id": str(row["id"]),
            "image": picture_file(row, "image", folder),
            "question": row["question"] or row["instruction"],
            "tag": row["tag"],
            **(perception(row) if row["tag"] == PERCEPTION else constrained(row)),
        }


def perception(row: PublishedRow) -> dict[str, Any]:
    answer = listed(row, "answer")
    return {"answer": [str(part) for part in answer], "constraints": []}


def constrained(row: PublishedRow) -> dict[str, Any]:
    constraints = [{"text": entry["value"], "checks": checks(entry, row)} for entry in listed(row, "constraints")]
    return {"answer": [entry["text"] for entry in constraints], "constraints": constraints}


def checks(entry: Mapping[str, Any], row: PublishedRow) -> list[dict[str, Any]]:
    method = entry["judge"]["method"]
    if method == BY_RULE:
        return [{"check": of["func"], "arguments": of["params"]} for of in entry["judge"]["verify_funcs"]]
    if method not in BY_JUDGE:
        raise DataError(
            f"a constraint is judged by {method!r}, which is none of {BY_RULE}, {BY_JUDGE}", where=row.origin
        )
    return []


def listed(row: PublishedRow, column: str) -> list[Any]:
    """A list, or one written as JSON."""
    value = row[column]
    found = json.loads(value) if isinstance(value, str) else value
    if not isinstance(found, list) or not found:
        raise DataError(f"the column {column!r} is no list of one or more: {value!r:.60}", where=row.origin)
    return found


if __name__ == "__main__":
    main(__doc__, make)
