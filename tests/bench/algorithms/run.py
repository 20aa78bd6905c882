"""What each method of the algorithm library changes against GRPO, on policies that are tables.

    PYTHONPATH=tests python -m bench.algorithms.run [--only rl_zvp tis] [--jobs 2] [--out FILE.md]

Every claim is a method, a setting and the sign that its source predicts there (`claims/`; `?`: it predicts none). Both
arms run with five seeds, or as many as the row says; a seed has the same table, order of prompts and stream of chance
in both. Exit code 1 where an effect that must be seen is not, or another sign than the predicted one has no reason.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import platform
import resource
import sys
import time
from pathlib import Path

import numpy as np
import torch
from bench.algorithms.claim import Claim, Seen, seen
from bench.algorithms.spec_rl_exact import rows as exact_rows

import mmrl
from mmrl.plugins import shipped_names

CLAIMS = Path(__file__).with_name("claims")
NAMED = ("rl_zvp", "dcpo", "noise_correction", "lens", "scaf_grpo", "coba_rl", "aero", "tis", "spec_rl")
HEAD = (
    "| method | setting | measure | GRPO | method | difference | 95 % interval | predicted / seen | note |\n"
    "|---|---|---|---|---|---|---|---|---|"
)
EXACT = (
    "| spec_rl | policies | predicted | share of tokens | chi-square against p, 40000 drafts |\n|---|---|---|---|---|"
)


# What the table does not try, and why.
WITHOUT = {
    "composed prompts (h1, Composition-RL)": "rows made before training, which is plain GRPO: tests/unit/data",
    "MedVLSynther": "rows made by two endpoints before training: tests of `mmrl make-questions`",
    "SPECS, OpenVLThinker rounds, AggLM, TON's thought dropout": "other stages or made rows, no change of GRPO's step",
    "search-weights, merge, compare-weights": "no training step",
}


def without_claims() -> list[str]:
    """A row for each shipped plug-in that no claim uses."""
    used = {plugin for name in names() for claim in claims_of(name) for plugin in claim.settings.get("plugins", ())}
    left = {name: "not tried" for name in shipped_names("algorithms") if name not in used}
    return [f"| {name} | {why} |" for name, why in {**left, **WITHOUT}.items()]


def names() -> list[str]:
    """All files of claims, those whose effect must be seen first."""
    others = sorted(path.stem for path in CLAIMS.glob("*.py") if path.stem not in NAMED)
    return [*NAMED, *others]


def claims_of(name: str) -> list[Claim]:
    return importlib.import_module(f"bench.algorithms.claims.{name}").CLAIMS


def of_file(name: str) -> list[tuple[str, str | None]]:
    """The rows of a file's claims, each with what it fails to show."""
    torch.set_num_threads(1)
    return [(found.row(), _failure(found)) for found in map(seen, claims_of(name))]


def _failure(found: Seen) -> str | None:
    """What is wrong with a row: a named effect is not seen, or nobody says why the sign is not the predicted one."""
    claim = found.claim
    if claim.predicted in ("?", found.sign) or (claim.why and not claim.named):
        return None
    return f"{claim.method}, {claim.setting}: predicted {claim.predicted}, seen {found.sign}"


def table(chosen: list[str], *, jobs: int) -> tuple[str, list[str]]:
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        exact = pool.apply_async(exact_rows if "spec_rl" in chosen else list)
        found: dict[str, list[tuple[str, str | None]]] = {}
        for name, rows in zip(chosen, pool.imap(of_file, chosen), strict=True):
            found[name] = rows
            print(f"{name}\n" + "\n".join(row for row, _ in rows), file=sys.stderr, flush=True)
        exact_found = exact.get()
        pool.close()
        pool.join()
    named = [row for name in chosen if name in NAMED for row in found[name]]
    others = [row for name in chosen if name not in NAMED for row in found[name]]
    parts = []
    if named:
        parts.append("\n".join([HEAD, *[row for row, _ in named]]))
    if exact_found:
        parts.append("\n".join([EXACT, *exact_found]))
    if others:
        parts.append("\n".join([HEAD, *[row for row, _ in others]]))
    if chosen == names():
        parts.append("\n".join(["| without a claim | why |\n|---|---|", *without_claims()]))
    versions = (
        f"One run of {sum(map(len, found.values()))} rows, {jobs} processes: {time.monotonic() - began:.0f} s,"
        f" {_processor_seconds():.0f} s of processor time. mmrl {mmrl.__version__}, Python {platform.python_version()},"
        f" torch {torch.__version__}, numpy {np.__version__}, {platform.machine()}."
    )
    return "\n\n".join([*parts, versions]) + "\n", [fault for _, fault in [*named, *others] if fault]


def _processor_seconds() -> float:
    """Of the processes that have ended, which made all rows."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names(), default=names())
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text, faults = table(options.only, jobs=options.jobs)
    print(text, end="")
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    for fault in faults:
        print(f"not seen: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
