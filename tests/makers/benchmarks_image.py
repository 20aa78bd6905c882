"""Rows of the shipped benchmarks of pictures."""

import json
from collections.abc import Callable
from pathlib import Path

from makers.benchmark_files import ROWS, picture, write_parquet
from makers.media import picture_bytes


def _mmstar(root: Path) -> None:
    question = "Which?\nOptions: A: red, B: blue, C: green, D: white"
    facts = {"l2_category": "x", "meta_info": {"source": "made"}}
    rows = [
        {"index": n, "question": question, "image": picture(n), "answer": "ABC"[n], "category": "ab"[n % 2], **facts}
        for n in range(ROWS)
    ]
    write_parquet(root / "MMStar" / "mmstar.parquet", rows)


def _docvqa(root: Path) -> None:
    rows = [
        {
            "questionId": str(10 + n),
            "question": "Which year?",
            "image": picture(n),
            "docId": n // 2,
            "answers": ["1998"],
        }
        for n in range(ROWS)
    ]
    write_parquet(root / "DocVQA" / "validation-00000-of-00002.parquet", rows[:2])
    write_parquet(root / "DocVQA" / "validation-00001-of-00002.parquet", rows[2:])


def _chartqa(root: Path) -> None:
    kinds = ("human_test", "augmented_test")
    rows = [{"type": kinds[n % 2], "question": "How many?", "answer": "12", "image": picture(n)} for n in range(ROWS)]
    write_parquet(root / "ChartQA" / "test-00000-of-00001.parquet", rows)


def _countbench(root: Path) -> None:
    rows = [{"image": picture(n), "question": "How many dogs?", "number": 2 + n} for n in range(ROWS)]
    write_parquet(root / "CountBenchQA" / "test-00000-of-00001.parquet", rows)


def _vstar(root: Path) -> None:
    text = "What colour?\n(A) red\n(B) blue\nAnswer with the option's letter from the given choices directly."
    kinds = ("direct_attributes", "relative_position")
    rows = [{"image": picture(n), "text": text, "category": kinds[n % 2], "label": "AB"[n % 2]} for n in range(ROWS)]
    write_parquet(root / "VStarBench" / "test-00000-of-00001.parquet", rows)


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


WRITERS: dict[str, Callable[[Path], None]] = {
    "mmstar": _mmstar,
    "docvqa_val": _docvqa,
    "chartqa": _chartqa,
    "countbench": _countbench,
    "vstar": _vstar,
    "screenspot_pro": _screenspot_pro,
}
