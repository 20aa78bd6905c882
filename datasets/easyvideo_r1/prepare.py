"""Rows of the card `easyvideo_r1` from EasyVideoR1's own: the space of every answer that is a place is written down.

    python datasets/easyvideo_r1/prepare.py train.json --out data/easyvideo_r1/train.jsonl [--boxes 0..1000]

Times are seconds; boxes are in the space that `--boxes` names (original_px where it is left out), tubes in both. An
answer inside <answer> tags is taken out of them.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmrl.data.made_rows import main, published_rows

TAGGED = re.compile(r"\s*<answer>(.*)</answer>\s*", re.DOTALL)


def make(source: Path, folder: Path, *, boxes: str) -> Iterator[dict[str, Any]]:
    spaces = {
        "temporal grounding": "seconds",
        "spatial grounding": boxes,
        "tracking": f"{boxes} at seconds",
        "spatial-temporal grounding": f"{boxes} at seconds",
    }
    for row in published_rows(source):
        answer = row["answer"]
        tagged = TAGGED.fullmatch(answer) if isinstance(answer, str) else None
        space = spaces.get(row["problem_type"])
        yield {**row, "answer": tagged[1].strip() if tagged else answer} | ({"answer_space": space} if space else {})


if __name__ == "__main__":
    main(__doc__, make, options={"boxes": {"default": "original_px", "help": "space of boxes"}})
