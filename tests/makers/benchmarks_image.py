"""Rows of the shipped benchmarks of pictures."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from makers.benchmark_files import ROWS, base64_picture, picture, write_parquet, write_tsv
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


def _ai2d(root: Path) -> None:
    facts = {"question": "What does A show?", "options": ["leaf", "root", "stem", "flower"]}
    write_parquet(
        root / "AI2D" / "test-0.parquet", [{**facts, "answer": str(n), "image": picture(n)} for n in range(ROWS)]
    )


def _infovqa(root: Path) -> None:
    rows = [
        {"questionId": str(n), "question": "How many?", "image": picture(n), "answers": ["12", "twelve"]}
        for n in range(ROWS)
    ]
    write_parquet(root / "InfographicVQA" / "validation-0.parquet", rows)


def _realworldqa(root: Path) -> None:
    letter = "Which way?\nA. Left\nB. Right\nPlease answer directly with only the letter of the correct option."
    said = [(letter, "B"), ("How many cars?\nPlease answer directly with a single number.", "3"), (letter, " a")]
    rows = [{"question": q, "answer": a, "image": picture(n)} for n, (q, a) in enumerate(said)]
    write_parquet(root / "RealWorldQA" / "test-0.parquet", rows)


def _mathvista(root: Path) -> None:
    facts = [
        {"question_type": "multi_choice", "answer_type": "text", "choices": ["(3, 4)", "5"], "answer": "5"},
        {"question_type": "free_form", "answer_type": "float", "precision": 1.0, "answer": "1.2"},
        {"question_type": "free_form", "answer_type": "list", "answer": "[1, 2]"},
    ]
    rows = [
        {"pid": str(n), "query": "Question: How much?", "decoded_image": picture(n), "choices": None, "precision": None}
        | facts[n]
        for n in range(ROWS)
    ]
    write_parquet(root / "MathVista" / "testmini-0.parquet", rows)


def _mathvision(root: Path, split: str) -> None:
    facts = [
        {"options": ["$1$", "$2$", "$3$"], "answer": "B"},
        {"options": [], "answer": "\\frac{1}{2}"},
        {"options": ["A", "B", "C", "D", "E"], "answer": "E"},
    ]
    shared = {"question": "Which? <image1>", "level": 2, "subject": "algebra"}
    rows = [{"id": str(n), "decoded_image": picture(n), **shared, **facts[n]} for n in range(ROWS)]
    write_parquet(root / "MathVision" / f"{split}-0.parquet", rows)


def _numbered(*seeds: int) -> dict[str, Any]:
    """The columns image_1 to image_7."""
    pictures = [picture(seed) for seed in seeds]
    return {f"image_{n + 1}": pictures[n] if n < len(pictures) else None for n in range(7)}


def _mmmu(root: Path) -> None:
    choice = {"question_type": "multiple-choice", "topic_difficulty": "Easy"}
    rows = [
        {
            "id": "validation_Art_Theory_1",
            "question": "<image 2> or <image 1>?",
            "options": "['<image 1>', '<image 2>']",
        }
        | {"answer": "A", **choice, **_numbered(0, 1)},
        {"id": "validation_Math_2", "question": "How many in <image 1>?", "options": "[]", "answer": "['4', 'four']"}
        | {**choice, "question_type": "open", **_numbered(2)},
        {"id": "validation_Math_3", "question": "Which?", "options": "['it\\'s', 'not']", "answer": "B"}
        | {**choice, **_numbered(3)},
    ]
    write_parquet(root / "MMMU" / "validation-0.parquet", rows)


def _mmmu_pro_standard(root: Path) -> None:
    facts = {"question": "What is in <image 1>?", "options": str(list("abcdefghij")), "subject": "Art"}
    rows = [{"id": f"test_Art_{n}", "answer": "ABJ"[n], **facts, **_numbered(n)} for n in range(ROWS)]
    write_parquet(root / "MMMU_Pro" / "standard (10 options)" / "test-0.parquet", rows)


def _mmmu_pro_vision(root: Path) -> None:
    facts = {"options": str(list("abcdefghij")), "subject": "Art"}
    rows = [{"id": f"test_Art_{n}", "answer": "ABJ"[n], "image": picture(n), **facts} for n in range(ROWS)]
    write_parquet(root / "MMMU_Pro" / "vision" / "test-0.parquet", rows)


def _mmbench(root: Path) -> None:
    """The second row is the first with its options the other way round, and has its picture."""
    facts = {"hint": "Read\nfirst.", "question": 'Is it "one"?', "category": "ocr", "l2-category": "perception"}
    rows = [
        {"index": 241, "image": base64_picture(0), "A": "yes", "B": "no", "C": "", "D": "", "answer": "A", **facts},
        {"index": 1000241, "image": 241, "A": "no", "B": "yes", "C": "", "D": "", "answer": "B", **facts},
        {
            "index": 5,
            "image": base64_picture(1),
            "A": "1",
            "B": "2",
            "C": "3",
            "D": "4",
            "answer": "D",
            **facts,
            "hint": "",
        },
    ]
    write_tsv(root / "MMBench_DEV_EN.tsv", rows)


def _hallusion_bench(root: Path) -> None:
    rows = [
        {"category": "VD", "subcategory": "chart", "set_id": "0", "figure_id": str(n), "question_id": "1"}
        | {"question": "Is the left bar longer?", "gt_answer": str(n % 2), "image": picture(n)}
        for n in range(ROWS)
    ]
    write_parquet(root / "HallusionBench" / "image-0.parquet", rows)


def _refcoco(root: Path) -> None:
    splits = ("RefCOCO_val", "RefCOCO+_testA", "RefCOCOg_test")
    box = {"bbox_x1": 10.5, "bbox_y1": 10, "bbox_x2": 40, "bbox_y2": 30, "width": 100, "height": 80}
    rows = [
        {"index": n, "image": base64_picture(n), "question": "Locate the left dog.", "split": splits[n], **box}
        for n in range(ROWS)
    ]
    write_tsv(root / "RefCOCO.tsv", rows)


def _blink(root: Path) -> None:
    for n, task in enumerate(("Counting", "Jigsaw", "Visual_Similarity")):
        facts = {"sub_task": task, "choices": ["one", "two"], "prompt": "Which?\n(A) one\n(B) two", "answer": "(B)"}
        pictures = [picture(seed) for seed in range(n + 1)] + [None] * 3
        row = {"idx": f"val_{task}_1", **facts, **{f"image_{i + 1}": pictures[i] for i in range(4)}}
        write_parquet(root / "BLINK" / task / "val-0.parquet", [row])


def _cv_bench(root: Path) -> None:
    for kind, sources in (("2D", ("ADE20K", "COCO")), ("3D", ("Omni3D",))):
        rows = [
            {
                "type": kind,
                "task": "Count",
                "source": source,
                "image": picture(n),
                "choices": ["1", "2"],
                "answer": "(A)",
            }
            | {"prompt": "How many?\n(A) 1\n(B) 2"}
            for n, source in enumerate(sources)
        ]
        write_parquet(root / "CV-Bench" / f"test_{kind.lower()}.parquet", rows)


def _erqa(root: Path) -> None:
    question = "What now? Choices: A. Lift. B. Drop. C. Wait. D. Turn. Please answer directly with only the letter."
    rows = [
        {"question_id": f"ERQA_{n}", "question": question, "question_type": "Action", "answer": "ABC"[n]}
        | {"images": [picture(seed) for seed in range(n + 1)]}
        for n in range(ROWS)
    ]
    write_parquet(root / "ERQA" / "test-0.parquet", rows)


def _embspatial(root: Path) -> None:
    facts = {"question": "How are sofa and lamp?", "answer_options": ["left", "right", "above", "under"]}
    rows = [
        {"question_id": f"q_{n}", "answer": n, "image": picture(n), "relation": "x", "data_source": "mp3d", **facts}
        for n in range(ROWS)
    ]
    write_parquet(root / "EmbSpatial" / "test-0.parquet", rows)


def _mme_realworld(root: Path, folder: str) -> None:
    options = ["(A) red", "(B) blue", "(C) green", "(D) white", "(E) none of these"]
    facts = {"question": "Which colour?", "multi-choice options": options, "l2-category": "count"}
    rows = [
        {"index": n, "bytes": base64_picture(n), "answer": "AEC"[n], "category": "Perception/Remote Sensing", **facts}
        for n in range(ROWS)
    ]
    write_parquet(root / folder / "train-0.parquet", rows)


WRITERS: dict[str, Callable[[Path], None]] = {
    "mmstar": _mmstar,
    "docvqa_val": _docvqa,
    "chartqa": _chartqa,
    "countbench": _countbench,
    "vstar": _vstar,
    "screenspot_pro": _screenspot_pro,
    "ai2d": _ai2d,
    "infovqa_val": _infovqa,
    "realworldqa": _realworldqa,
    "mathvista": _mathvista,
    "mathvision": partial(_mathvision, split="test"),
    "mathvision_mini": partial(_mathvision, split="testmini"),
    "mmmu_val": _mmmu,
    "mmmu_pro_standard": _mmmu_pro_standard,
    "mmmu_pro_vision": _mmmu_pro_vision,
    "mmbench_dev_en": _mmbench,
    "hallusion_bench": _hallusion_bench,
    "refcoco": _refcoco,
    "blink": _blink,
    "cv_bench": _cv_bench,
    "erqa": _erqa,
    "embspatial": _embspatial,
    "mme_realworld": partial(_mme_realworld, folder="MME-RealWorld"),
    "mme_realworld_lite": partial(_mme_realworld, folder="MME-RealWorld-lite"),
}
