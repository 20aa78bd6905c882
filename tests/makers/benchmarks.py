"""A few rows of every shipped benchmark in its published layout, with made pictures and clips."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from makers.media import picture_bytes

from mmrl.evaluate.benchmark import shipped_benchmarks

ROWS = 3


def write_benchmarks(root: Path, names: Sequence[str] = ()) -> Path:
    """The files of these benchmarks, or of all shipped ones, in a folder as `--root` names it."""
    for name in names or shipped_benchmarks():
        _WRITERS[name](root)
    return root


def _parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow
    import pyarrow.parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def _picture(seed: int) -> dict[str, Any]:
    return {"bytes": picture_bytes(seed), "path": f"{seed}.png"}


def _mmstar(root: Path) -> None:
    question = "Which?\nOptions: A: red, B: blue, C: green, D: white"
    facts = {"l2_category": "x", "meta_info": {"source": "made"}}
    rows = [
        {"index": n, "question": question, "image": _picture(n), "answer": "ABC"[n], "category": "ab"[n % 2], **facts}
        for n in range(ROWS)
    ]
    _parquet(root / "MMStar" / "mmstar.parquet", rows)


def _docvqa(root: Path) -> None:
    rows = [
        {
            "questionId": str(10 + n),
            "question": "Which year?",
            "image": _picture(n),
            "docId": n // 2,
            "answers": ["1998"],
        }
        for n in range(ROWS)
    ]
    _parquet(root / "DocVQA" / "validation-00000-of-00002.parquet", rows[:2])
    _parquet(root / "DocVQA" / "validation-00001-of-00002.parquet", rows[2:])


def _chartqa(root: Path) -> None:
    kinds = ("human_test", "augmented_test")
    rows = [{"type": kinds[n % 2], "question": "How many?", "answer": "12", "image": _picture(n)} for n in range(ROWS)]
    _parquet(root / "ChartQA" / "test-00000-of-00001.parquet", rows)


def _countbench(root: Path) -> None:
    rows = [{"image": _picture(n), "question": "How many dogs?", "number": 2 + n} for n in range(ROWS)]
    _parquet(root / "CountBenchQA" / "test-00000-of-00001.parquet", rows)


def _vstar(root: Path) -> None:
    text = "What colour?\n(A) red\n(B) blue\nAnswer with the option's letter from the given choices directly."
    kinds = ("direct_attributes", "relative_position")
    rows = [{"image": _picture(n), "text": text, "category": kinds[n % 2], "label": "AB"[n % 2]} for n in range(ROWS)]
    _parquet(root / "VStarBench" / "test-00000-of-00001.parquet", rows)


def _screenspot_pro(root: Path) -> None:
    annotations, images = root / "ScreenSpot-Pro" / "annotations", root / "ScreenSpot-Pro" / "images"
    annotations.mkdir(parents=True)
    images.mkdir()
    for file, numbers in (("blender_windows.json", (0, 1)), ("word_macos.json", (2,))):
        rows = []
        for n in numbers:
            (images / f"{n}.png").write_bytes(picture_bytes(n))
            facts = {"application": file, "platform": "x", "group": "Office", "ui_type": "icon", "img_size": [100, 80]}
            rows.append(
                {"id": f"x_{n}", "img_filename": f"{n}.png", "bbox": [10, 10, 40, 30], "instruction": "Save", **facts}
            )
        (annotations / file).write_text(json.dumps(rows))


def _charades_sta(root: Path) -> None:
    from makers.clips import ClipSpec, write_clip

    (root / "charades_sta").mkdir(parents=True)
    (root / "Charades_v1_480").mkdir()
    rows = []
    for n in range(ROWS):
        write_clip(root / "Charades_v1_480" / f"{n}.mp4", ClipSpec())
        rows.append({"video": f"{n}.mp4", "caption": "a person sits down", "timestamp": [0.0, 1.0]})
    (root / "charades_sta" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


_WRITERS: dict[str, Callable[[Path], None]] = {
    "mmstar": _mmstar,
    "docvqa_val": _docvqa,
    "chartqa": _chartqa,
    "countbench": _countbench,
    "vstar": _vstar,
    "screenspot_pro": _screenspot_pro,
    "charades_sta": _charades_sta,
}
