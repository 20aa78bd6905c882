"""Rewards a second on one core: every shipped reward on its golden cases, and three on inputs of full size.

    python tests/bench/bench_rewards.py [--rewards box_iou teds] [--seconds 1 | --short] [--out FILE.md]

Seconds are those of this process's CPU, after one pass that loads what is loaded once. Of rewards that start programs
(a sandbox, a browser, a compiler) they are those of the clock on the wall, for the CPU time of what runs inside
bubblewrap is not told to this process. Left out are cases whose answer is an error, cases that set a time limit, which
run until it ends, and cases with a model: rewards that have no others are named under the table. The inputs of full
size: TEDS on tables of 100 cells, a matching of 100 boxes with 100, and 20 tests on a page of 3000 characters.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmrl.data.sample import Sample
from mmrl.errors import MmrlError
from mmrl.plugins import shipped_names
from mmrl.scoring.cases import cases_of
from mmrl.scoring.pool import RewardCall, run_call

REQUIRED = 200


def calls_of(name: str) -> list[RewardCall]:
    """One call for each measured case, in its options; none where every case calls a model."""
    cases = [case for case in cases_of(name) if case.error is None and not case.brings_a_model]
    cases = [case for case in cases if "time_limit_s" not in case.options]
    return [RewardCall(name, None, case.options, ((case.sample, case.completions),)) for case in cases]


def full_size() -> dict[str, list[RewardCall]]:
    """The calls of each input of full size, by its name in the table."""
    rng = random.Random(0)
    return {
        "teds, 100 cells": [_call("teds", _html(rng), _html(rng)) for _ in range(4)],
        "grounding, 100 boxes": [_call("grounding", _boxes(rng), _boxes(rng)) for _ in range(4)],
        "page_tests, 20 tests": [_call("page_tests", _page(rng), _tests(rng)) for _ in range(4)],
    }


def _call(name: str, completion: object, answer: object) -> RewardCall:
    text = completion if isinstance(completion, str) else repr(completion).replace("'", '"')
    return RewardCall(name, None, {}, ((Sample("b", name, "image", (), answer=answer), (text,)),))


def _html(rng: random.Random) -> str:
    rows = ("".join(f"<td>{_words(rng, 2)}</td>" for _ in range(10)) for _ in range(10))
    return "<table>" + "".join(f"<tr>{cells}</tr>" for cells in rows) + "</table>"


def _boxes(rng: random.Random) -> list[dict]:
    corners = [(rng.randint(0, 900), rng.randint(0, 900)) for _ in range(100)]
    return [
        {"bbox_2d": [x, y, x + rng.randint(10, 99), y + rng.randint(10, 99)], "label": rng.choice("abc")}
        for x, y in corners
    ]


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(("alpha", "beta", "gamma", "delta", "epsilon", "zeta")) for _ in range(count))


def _page(rng: random.Random) -> str:
    return "---\nprimary_language: en\n---\n" + "\n\n".join(_words(rng, 50) for _ in range(10))


def _tests(rng: random.Random) -> list[dict]:
    return [{"type": rng.choice(("present", "absent")), "text": _words(rng, 6), "max_diffs": 2} for _ in range(20)]


@dataclass(frozen=True)
class Rate:
    """Completions scored per second, how many were scored, and whether the seconds are those of the wall."""

    per_second: float
    completions: int
    of_the_wall: bool

    def row(self, name: str) -> str:
        notes = ["below 200"] * (self.per_second < REQUIRED) + ["wall clock"] * self.of_the_wall
        suffix = f" ({', '.join(notes)})" if notes else ""
        return f"| {name} | {self.per_second:.0f}{suffix} | {self.completions} |"


class Started:
    """Counts the programs that this process starts."""

    def __init__(self) -> None:
        self.count = 0
        sys.addaudithook(self._see)

    def _see(self, event: str, _arguments: object) -> None:
        self.count += event == "subprocess.Popen"


def rate(calls: Sequence[RewardCall], *, seconds: float, started: Started) -> Rate:
    """At least one pass over the calls is measured, after one that is not."""
    before = started.count
    failed = [o for call in calls for o in run_call(call) if o.event]
    if failed:
        raise MmrlError(f"{failed[0].event}: {failed[0].message}")
    of_the_wall = started.count > before
    clock = time.perf_counter if of_the_wall else time.process_time
    start, done = clock(), 0
    while True:
        done += sum(len(run_call(call)) for call in calls)
        if (spent := clock() - start) >= seconds:
            return Rate(done / spent, done, of_the_wall)


def table(wanted: Mapping[str, Sequence[RewardCall]], *, seconds: float) -> Iterator[str]:
    """The lines of the results, each when it is measured."""
    yield "| reward | rewards a second | completions |"
    yield "|---|---|---|"
    started = Started()
    for name, calls in wanted.items():
        if not calls:
            continue
        try:
            yield rate(calls, seconds=seconds, started=started).row(name)
        except MmrlError as error:
            yield f"| {name} | not measured: {str(error)[:100]} | |"
    left_out = [name for name, calls in wanted.items() if not calls]
    if left_out:
        yield f"\nLeft out, for each of their cases calls a model: {', '.join(left_out)}"
    yield f"\nPython {sys.version.split()[0]}, one core of {len(os.sched_getaffinity(0))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rewards", nargs="+", help="default: every shipped one, and the inputs of full size")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--short", action="store_true", help="one pass for each: whether all run, not how fast")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    wanted = {name: calls_of(name) for name in arguments.rewards or shipped_names("rewards")}
    wanted |= {} if arguments.rewards else full_size()
    lines = []
    for line in table(wanted, seconds=0.0 if arguments.short else arguments.seconds):
        print(line, flush=True)
        lines.append(line)
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
