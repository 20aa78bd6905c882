"""Reading and checking JSONL rows: rows a second on one core, and memory above the start.

    python tests/bench/bench_rows.py [--cards easyr1 openai] [--rows 100000 1000000] [--out FILE.md]

Every row is parsed, mapped by its card, its placeholders split and counted, its media located, its id compared with all
others: what `read_dataset` does before training starts. A third of the rows has a picture, a third a clip, a third
neither; media files are two empty ones. Each figure comes from a process of its own. *peak*: largest resident size
while reading, above that just before; *kept*: the same once the rows are read. *again*: rows read a second time,
shuffled, as training does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mmrl.config.schema import DataSection, DatasetSection
from mmrl.data.readers import read_dataset
from mmrl.data.skipped import SkippedLog

AGAIN = 20_000
QUESTION = "Which of the four things on the table stands furthest to the left? A. cup B. spoon C. plate D. box"
REPLY = "The cup stands left of the plate, and nothing is further to the left, so the answer is A."


def easyr1_row(number: int, media: list[str], kind: str) -> dict:
    tag = {"images": "<image>", "videos": "<video>", "": ""}[kind]
    columns = {kind: media} if kind else {}
    row = {"problem": f"{tag}{QUESTION}", "answer": "A", "problem_type": "multiple choice", **columns}
    return {**row, "problem_id": f"tables-{number}", "options": ["cup", "spoon", "plate", "box"]}


def llava_row(number: int, media: list[str], kind: str) -> dict:
    tag, column = {"images": ("<image>\n", "image"), "videos": ("<video>\n", "video"), "": ("", "")}[kind]
    turns = [{"from": "human", "value": f"{tag}{QUESTION}"}, {"from": "gpt", "value": REPLY}]
    return {"id": f"{number:012d}", **({column: media[0]} if kind else {}), "conversations": turns}


def openai_row(number: int, media: list[str], kind: str) -> dict:
    part = {"images": ("image_url", "image_url"), "videos": ("video", "video"), "": None}[kind]
    content = [*([{"type": part[0], part[1]: media[0]}] if part else []), {"type": "text", "text": QUESTION}]
    return {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": REPLY}]}


ROWS: dict[str, Callable[[int, list[str], str], dict]] = {
    "easyr1": easyr1_row,
    "llava": llava_row,
    "openai": openai_row,
}


def write(path: Path, card: str, count: int) -> None:
    media = {"images": ["a.jpg"], "videos": ["v.mp4"], "": []}
    for name in ("a.jpg", "v.mp4"):
        (path.parent / name).touch()
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            kind = ("images", "videos", "")[number % 3]
            file.write(json.dumps(ROWS[card](number, media[kind], kind)) + "\n")


def resident() -> int:
    """Resident bytes of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    """Largest number of resident bytes since the process started."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(path: Path, card: str) -> dict[str, float]:
    """Reads the file in this process."""
    data, skipped = DataSection(), SkippedLog(None, max_fraction=0.0)
    section = DatasetSection.model_validate({"path": str(path), "card": card})
    small = path.with_name("warm.jsonl")
    write(small, card, 1000)
    read_dataset(section.model_copy(update={"path": str(small)}), data=data, relative_to=path.parent, skipped=skipped)
    before, started = max(resident(), peak()), time.process_time()
    samples = read_dataset(section, data=data, relative_to=path.parent, skipped=skipped)
    seconds, highest, kept = time.process_time() - started, peak(), resident()
    order = random.Random(0).sample(range(len(samples)), min(AGAIN, len(samples)))
    started = time.process_time()
    for number in order:
        samples[number]
    again = len(order) / (time.process_time() - started)
    return {"rate": len(samples) / seconds, "peak": highest - before, "kept": kept - before, "again": again}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--cards", nargs="+", choices=sorted(ROWS), default=["easyr1", "openai"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", nargs=2, metavar=("FILE", "CARD"), help="read one file and print its figures")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(Path(arguments.measure[0]), arguments.measure[1])))
        return
    lines = [
        "| card | rows | rows a second | peak MB | bytes a row | kept MB | again, rows a second |",
        "|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        for card in arguments.cards:
            for count in arguments.rows:
                path = Path(name) / "rows.jsonl"
                write(path, card, count)
                command = [sys.executable, __file__, "--measure", str(path), card]
                found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
                lines.append(
                    f"| {card} | {count} | {found['rate']:.0f} | {found['peak'] / 1e6:.1f} "
                    f"| {found['peak'] / count:.0f} | {found['kept'] / 1e6:.1f} | {found['again']:.0f} |"
                )
                print(lines[-1], flush=True)
    lines.append(f"\nPython {sys.version.split()[0]}, one core of {len(os.sched_getaffinity(0))}")
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
