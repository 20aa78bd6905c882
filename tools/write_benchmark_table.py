"""Write the table of docs/evaluate.md: `python tools/write_benchmark_table.py`.

It comes from the task files in datasets/benchmarks; a test keeps it equal.
"""

from __future__ import annotations

from pathlib import Path

import needs_mmrl  # noqa: F401
from write_reward_table import with_table

from mmrl.config.benchmark_section import BenchmarkSection
from mmrl.evaluate.benchmark import load_benchmark, shipped_benchmarks

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "evaluate.md"
FILES = ROOT / "datasets" / "benchmarks"
HEAD = ("name", "rows", "what", "score", "layout")


def row(name: str) -> str:
    """The table's line of one shipped benchmark.

    >>> row("vstar")
    '| `vstar` | 191 | V*: small things in large pictures, by letter; two kinds of question. | `choice` | unverified |'
    """
    section = load_benchmark(name).section
    rows = "" if section.expect.rows is None else f"{section.expect.rows:,}"
    return _line(f"`{name}`", rows, _what(name), _score(section), section.provenance.layout)


def _what(name: str) -> str:
    """The comment that the task file begins with."""
    lines = (FILES / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    end = next(n for n, line in enumerate(lines) if not line.startswith("#"))
    assert end, f"{name}.yaml must begin with a comment that says what it asks"
    return " ".join(line.removeprefix("#").strip() for line in lines[:end])


def _score(section: BenchmarkSection) -> str:
    kinds = section.score.values() if isinstance(section.score, dict) else [section.score]
    counted = dict.fromkeys(f"`{part.reward}`" for parts in kinds for part in parts if part.weight)
    average = section.how
    together = ", ".join(f"`{column}`" for column in average.all_of_columns)
    groups = " of means over ".join(f"`{column}`" for column in average.group_columns)
    others = ", ".join(average.mean_of)
    judge = "" if section.judge is None else f"judge {section.judge.model}"
    said = [
        judge,
        f"all of {together}" * bool(together),
        f"mean over {groups}" * bool(groups),
        f"mean of {others}" * bool(others),
    ]
    also = ", ".join(name for name in section.also if name not in average.mean_of)
    return ", ".join([*counted, *filter(None, [*said, f"also {also}" * bool(also)])])


def _line(*cells: str) -> str:
    return ("|" + "|".join(f" {cell.replace('|', chr(92) + '|')} " if cell else " " for cell in cells) + "|").strip()


def table() -> list[str]:
    """Every shipped benchmark."""
    return [_line(*HEAD), "|" + "---|" * len(HEAD), *map(row, shipped_benchmarks())]


if __name__ == "__main__":
    TARGET.write_text(with_table(TARGET.read_text(encoding="utf-8"), table()), encoding="utf-8")
    print(TARGET)
