"""Scores of written answers to shipped benchmarks: the tiny model is asked, and its stored answers are replaced."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from makers.benchmarks import ROWS
from makers.command import mmrl
from makers.tiny_models import tiny_model_dir


def rescored(files: Path, out: Path, answers: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Results by benchmark. files: of all benchmarks. answers: by benchmark, in the order of the questions' keys."""
    model = ("--model", tiny_model_dir("qwen2_5_vl"), "--dtype", "float32", "--workers", 1)
    where = ("--root", files, "--out", out, "--cache", files / "cache", "--tasks", ",".join(answers))
    command = ["evaluate", *model, *where, "--limit", ROWS, "--max-new-tokens", 2]
    said = mmrl(*command)
    assert said.code == 0, said.err
    for name, of in answers.items():
        replace_answers(out / name / "samples.jsonl", of)
    said = mmrl(*command, "--rescore")
    assert said.code == 0, said.err
    return json.loads((out / "results.json").read_text())["benchmarks"]


def replace_answers(path: Path, answers: Sequence[str]) -> None:
    """Rows of the file in the order of the questions, each with its answer."""
    rows = sorted(map(json.loads, path.read_text().splitlines()), key=lambda row: row["key"])
    rows = [row | {"completion": text, "status": "ok"} for row, text in zip(rows, answers, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
