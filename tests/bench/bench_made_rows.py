"""Seconds to find the sources of made rows among the rows of a dataset, and bytes a row that this takes.

    python tests/bench/bench_made_rows.py [SIZE ...]      its table is tests/bench/results/made_rows.md

Datasets of text rows, of ten thousand to a million; 640 made rows (10 steps of 64 prompts) that name rows all over
each. `scan` is what it replaces: samples are made one after the other until all are found; up to a hundred thousand
rows.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from makers.bench_models import versions
from makers.rows import read, write_jsonl

from mmrl.data.readers import SampleSet

SIZES, SCANNED, MADE = (10_000, 100_000, 1_000_000), 100_000, 640


def scan(rows: SampleSet, keys: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for place in range(len(rows)):
        sample = rows[place]
        key = (sample.dataset, sample.sample_id)
        if key in keys:
            found.setdefault(key, place)
            if len(found) == len(keys):
                break
    return found


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or SIZES
    print(f"{versions()}; 1 thread\n\n| rows | made rows | look-up, s | scan, s | bytes a row |\n|---|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            given = [{"prompt": f"q{n}", "answer": "a", "task": "t", "id": f"row-{n}"} for n in range(size)]
            rows = read(write_jsonl(Path(folder) / "rows.jsonl", given))
            keys = {("rows", f"row-{n}") for n in random.Random(0).sample(range(size), MADE)}
            found, seconds = timed(lambda keys=keys, rows=rows: rows.places_of(keys))
            scanned, slow = timed(lambda keys=keys, rows=rows: scan(rows, keys)) if size <= SCANNED else (found, None)
            assert found == scanned and len(found) == MADE
            seen = rows._datasets[0].seen
            held = (seen._hashes.itemsize * len(seen._hashes) + seen._slots.itemsize * len(seen._slots)) / size
            said = "not run" if slow is None else f"{slow:.2f}"
            print(f"| {size} | {MADE} | {seconds:.3f} | {said} | {held:.1f} |", flush=True)


def timed(look: Callable[[], dict[tuple[str, str], int]]) -> tuple[dict[tuple[str, str], int], float]:
    start = time.perf_counter()
    found = look()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
