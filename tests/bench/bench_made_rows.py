"""Seconds to find the sources of made rows among the rows of a dataset, and bytes a row that this takes.

    python tests/bench/bench_made_rows.py      writes tests/bench/results/made_rows.md

Two datasets of text rows, of ten thousand and of a million; 640 made rows (10 steps of 64 prompts) that name rows all
over each. `scan` is what it replaces: samples are made one after the other until all are found.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path

from makers.bench_models import versions
from makers.rows import read, write_jsonl

from mmrl.data.readers import SampleSet

SIZES, MADE = (10_000, 1_000_000), 640
OUT = Path(__file__).parent / "results" / "made_rows.md"


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
    lines = [
        f"{versions()}; 1 thread\n",
        "| rows | made rows | look-up, s | scan, s | bytes a row |",
        "|---|---|---|---|---|",
    ]
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            given = [{"prompt": f"q{n}", "answer": "a", "task": "t", "id": f"row-{n}"} for n in range(size)]
            rows = read(write_jsonl(Path(folder) / "rows.jsonl", given))
            chosen = random.Random(0).sample(range(size), MADE)
            keys = {(rows[n].dataset, rows[n].sample_id) for n in chosen}
            seconds, results = {}, []
            for way in (rows.places_of, lambda wanted, rows=rows: scan(rows, wanted)):
                start = time.perf_counter()
                results.append(way(keys))
                seconds[len(seconds)] = time.perf_counter() - start
            assert results[0] == results[1] and len(results[0]) == MADE
            seen = rows._datasets[0].seen
            size_of = (seen._hashes.itemsize * len(seen._hashes) + seen._slots.itemsize * len(seen._slots)) / size
            lines.append(f"| {size} | {MADE} | {seconds[0]:.2f} | {seconds[1]:.2f} | {size_of:.1f} |")
            print(json.dumps({"rows": size, **{str(k): v for k, v in seconds.items()}}), flush=True)
    OUT.write_text("\n".join(lines) + "\n")
    print(OUT.read_text())


if __name__ == "__main__":
    main()
