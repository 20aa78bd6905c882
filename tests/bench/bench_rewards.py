"""Rewards a second on one core: every shipped reward on its golden cases, and three on inputs of full size.

    python tests/bench/bench_rewards.py [--rewards box_iou teds] [--seconds 1] [--out FILE.md]

Seconds are those of the CPU, of child processes too (a sandbox, a browser, a compiler), after one pass that loads what
is loaded once. Cases whose answer is an error, and rewards that wait for a judge, are left out. The inputs of full
size: TEDS on tables of 100 cells, a matching of 100 boxes with 100, and 20 tests on a page of 3000 characters.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from mmrl.data.sample import Sample
from mmrl.errors import MmrlError
from mmrl.plugins import shipped_names
from mmrl.scoring.cases import cases_of
from mmrl.scoring.pool import RewardCall, run_call
from mmrl.scoring.reward import resolve_reward

REQUIRED = 200


def calls_of(name: str) -> list[RewardCall]:
    """One call a case, in the options of the case."""
    cases = [case for case in cases_of(name) if case.error is None]
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


def rate(calls: Sequence[RewardCall], *, seconds: float) -> tuple[float, int]:
    """Completions scored per CPU second, and how many; at least one pass over the calls is measured."""
    failed = [o for call in calls for o in run_call(call) if o.event]
    if failed:
        raise MmrlError(f"{failed[0].event}: {failed[0].message}")
    start, done = _cpu_seconds(), 0
    while True:
        done += sum(len(run_call(call)) for call in calls)
        if (spent := _cpu_seconds() - start) >= seconds:
            return done / spent, done


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rewards", nargs="+", help="default: every shipped one, and the inputs of full size")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    names = [n for n in arguments.rewards or shipped_names("rewards") if not resolve_reward(n).asks_a_judge]
    wanted = {name: calls_of(name) for name in names}
    wanted |= {} if arguments.rewards else full_size()
    lines = ["| reward | rewards a second | completions |", "|---|---|---|"]
    for name, calls in wanted.items():
        try:
            found, done = rate(calls, seconds=arguments.seconds)
            lines.append(f"| {name} | {found:.0f}{' (below 200)' if found < REQUIRED else ''} | {done} |")
        except MmrlError as error:
            lines.append(f"| {name} | not measured: {str(error)[:100]} | |")
        print(lines[-1], flush=True)
    lines.append(f"\nPython {sys.version.split()[0]}, one core of {len(os.sched_getaffinity(0))}")
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
