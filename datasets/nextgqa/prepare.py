"""Rows of the card `nextgqa` from NExT-GQA's questions and the file of the spans that show their answers:

    python datasets/nextgqa/prepare.py datasets/nextgqa/test.csv --spans datasets/nextgqa/gsub_test.json \\
      --videos videos --out NExT-GQA/rows.jsonl

Clips are called by their number: `videos/2574374895.mp4`. Questions without spans are left out, as in the source.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, published_rows
from mmrl.errors import DataError

OPTIONS = ("a0", "a1", "a2", "a3", "a4")


def make(source: Path, folder: Path, *, spans: Path, videos: Path) -> Iterator[dict[str, Any]]:
    grounded = json.loads(spans.read_text(encoding="utf-8"))
    for row in published_rows(source):
        clip, number = row["video_id"], str(row["qid"])
        places = grounded.get(clip, {}).get("location", {}).get(number)
        if not places:
            continue
        options = [row[name] for name in OPTIONS]
        if row["answer"] not in options:
            raise DataError(f"the answer {row['answer']!r} is none of the options {options}", where=row.origin)
        yield {
            "id": f"{clip}_{number}",
            "video_id": clip,
            "question": row["question"],
            "options": options,
            "type": row["type"],
            "clip": str((videos / f"{clip}.mp4").absolute()),
            "answer": {"answer": "ABCDE"[options.index(row["answer"])], "spans": places},
        }


if __name__ == "__main__":
    options = {
        "spans": {"type": Path, "required": True, "help": "gsub_test.json or gsub_val.json"},
        "videos": {"type": Path, "required": True, "help": "folder of the clips"},
    }
    main(__doc__, make, options=options)
