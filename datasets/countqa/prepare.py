"""Rows of the card `countqa` from CountQA's files, one row for each of the questions that a picture has:

python datasets/countqa/prepare.py CountQA/data/test-*.parquet --out CountQA/rows.jsonl
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, picture_file, published_rows
from mmrl.errors import DataError

BESIDE = ("objects", "categories", "is_focused")


def make(source: Path, folder: Path) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(published_rows(source)):
        questions, answers = row["questions"] or [], row["answers"] or []
        if len(questions) != len(answers):
            raise DataError(f"{len(questions)} questions and {len(answers)} answers; mend the row", where=row.origin)
        image = picture_file(row, "image", folder) if questions else None
        facts = {name: row.get(name) for name in BESIDE}
        for place, (question, answer) in enumerate(zip(questions, answers, strict=True)):
            shown = {"question": question, "count": str(answer)}
            yield {"id": f"{source.stem}:{number}_{place}", "image": image, **shown, **facts}


if __name__ == "__main__":
    main(__doc__, make)
