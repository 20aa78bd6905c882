"""Rows of the shipped benchmarks of pictures whose answers a judge scores."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from makers.benchmark_files import ROWS, base64_picture, picture, write_parquet
from makers.media import picture_bytes
from makers.recipe_rows import prepared

VERSIONS = ("Text Dominant", "Vision Intensive", "Vision Only")
# Beside the question files of CharXiv's repository, with instructions of our own.
CONSTANTS = """
REASONING_RESP_INST = {1: "{}\\n    * Name it.\\n    ", 4: "{}\\n    {}\\n    "}
DESCRIPTIVE_RESP_INST = {1: "{}what is its title?", 18: "what is the layout?", 10: "{}how many lines are there?"}
DESCRIPTIVE_GRADING_QMAP = {1: "What is the title?", 18: "What is the layout?", 10: "How many lines are there?"}
"""


def _mathverse(root: Path) -> None:
    """One problem; Vision Only has no question in words."""
    rows = []
    for n, version in enumerate(VERSIONS):
        question = "" if version == "Vision Only" else "Find x. Choices: A: 1 B: 2"
        asked = f"Please directly answer.\nQuestion: {question}" if question else "According to the picture, answer."
        facts = {"question_type": "multi-choice" if n else "free-form", "answer": "B" if n else "2"}
        facts |= {"metadata": {"split": "testmini", "subject": "Plane Geometry"}, "image": picture(n)}
        texts = {"question": question, "query_wo": asked, "query_cot": asked, "question_for_eval": "Find x."}
        rows.append({"sample_index": str(n + 1), "problem_index": "1", "problem_version": version, **texts, **facts})
    write_parquet(root / "MathVerse" / "testmini-00000-of-00001.parquet", rows)


def _simplevqa(root: Path) -> None:
    facts = {"original_category": "x", "question": "Who is it?", "answer": "Barack Obama"}
    rows = [
        {"data_id": n, "image": base64_picture(n), "language": "CN" if n == 1 else "EN", **facts}
        for n in range(ROWS + 1)
    ]
    write_parquet(root / "SimpleVQA" / "test-00000-of-00001.parquet", rows)


def _chartmuseum(root: Path) -> None:
    folder, kinds = root / "ChartMuseum", ("text", "visual", "synthesis")
    rows: list[dict[str, Any]] = []
    for n in range(ROWS):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        (folder / "images" / f"{n}.png").write_bytes(picture_bytes(n))
        facts = {"reasoning_type": kinds[n], "source": "made", "hash": f"h{n}"}
        rows.append({"image": f"images/{n}.png", "question": "How many?", "answer": "12", **facts})
    write_parquet(folder / "data" / "test-00000-of-00001.parquet", rows)


def _mm_vet_v2(root: Path) -> None:
    """The last row has two pictures."""
    rows = []
    for n in range(ROWS):
        count = 2 if n == ROWS - 1 else 1
        shown = "".join(f"<IMG><image_{k}>" for k in range(count))
        facts = {
            "id": f"v2_{n}",
            "question": f"What is x?{shown}",
            "answer": "-1<AND>-5",
            "capability": ["rec", "math"],
        }
        rows.append({**facts, **{f"image_{k}": picture(k) if k < count else None for k in range(18)}})
    write_parquet(root / "MM-Vet-v2" / "test-00000-of-00001.parquet", rows)


def _charxiv(root: Path, kind: str) -> None:
    folder = root / "CharXiv"
    for name in ("data", "images", "src"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "src" / "constants.py").write_text(CONSTANTS)
    for n in range(ROWS):
        (folder / "images" / f"{n}.jpg").write_bytes(picture_bytes(n))
    reasoning = {
        str(n): {"figure_id": n, "query": "How high?", "answer": "0.25", "inst_category": 4 if n else 1, "qa_source": 1}
        for n in range(ROWS)
    }
    descriptive = {
        str(n): {"figure_id": n, "num_subplots": 2, "subplot_loc": ([1, 2], [0, 0], "the left subplot")[n]}
        | {"qids": [1, 18, 10], "answers": ["Loss", "1 by 2", "Not Applicable"]}
        for n in range(ROWS)
    }
    source = folder / "data" / f"{kind}_val.json"
    source.write_text(json.dumps({"reasoning": reasoning, "descriptive": descriptive}[kind]))
    prepared("charxiv", source, folder / f"{kind}.jsonl", images=folder / "images")


WRITERS: dict[str, Callable[[Path], None]] = {
    "mathverse": _mathverse,
    "simplevqa_en": _simplevqa,
    "chartmuseum": _chartmuseum,
    "mm_vet_v2": _mm_vet_v2,
    "charxiv_reasoning": lambda root: _charxiv(root, "reasoning"),
    "charxiv_descriptive": lambda root: _charxiv(root, "descriptive"),
}
