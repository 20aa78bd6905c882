"""Rows of the shipped benchmarks of clips."""

from collections.abc import Callable
from pathlib import Path

from makers.benchmark_files import ROWS, write_jsonl
from makers.clips import ClipSpec, write_clip


def _charades_sta(root: Path) -> None:
    (root / "Charades_v1_480").mkdir(parents=True)
    rows = []
    for n in range(ROWS):
        write_clip(root / "Charades_v1_480" / f"{n}.mp4", ClipSpec())
        rows.append({"video": f"{n}.mp4", "caption": "a person sits down", "timestamp": [0.0, 1.0]})
    write_jsonl(root / "charades_sta" / "test.jsonl", rows)


WRITERS: dict[str, Callable[[Path], None]] = {"charades_sta": _charades_sta}
