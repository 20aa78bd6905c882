"""`mmrl score --selftest`: rewards on their golden cases."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from mmrl.errors import MmrlError
from mmrl.plugins import find_plugin, shipped_names
from mmrl.scoring.cases import Case, cases_of, failures, run_case

FAILED = 1


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What became of one reward's cases. failures: one line each, with file and line of the case."""

    reward: str
    cases: int
    failures: tuple[str, ...]
    seconds: float


def chosen_rewards(name: str) -> tuple[str, ...]:
    """The rewards that NAME stands for: every shipped one for `all`, else the one of that spelling.

    Raises PluginError, with the known names, for a reward that does not exist.
    """
    if name == "all":
        return shipped_names("rewards")
    find_plugin(name, kind="rewards")
    return (name,)


def selftest(spelling: str, *, relative_to: Path | None = None) -> SelfTest:
    """Run all cases of a reward. A reward that cannot be imported, or has no readable cases, is one failure."""
    start = time.perf_counter()
    try:
        cases = cases_of(spelling, relative_to=relative_to)
    except MmrlError as error:
        return SelfTest(spelling, 0, (str(error),), time.perf_counter() - start)
    found = [line for case in cases for line in _differences(case, spelling, relative_to=relative_to)]
    return SelfTest(spelling, len(cases), tuple(found), time.perf_counter() - start)


def _differences(case: Case, spelling: str, *, relative_to: Path | None) -> list[str]:
    try:
        return list(failures(case, run_case(case, spelling, relative_to=relative_to)))
    except SystemExit as error:  # cases run in this process, which would end without a word
        return [f"{case.sample.where}: the reward ended its process (SystemExit: {error})"]


def selftest_command(name: str) -> int:
    """Print a table of the chosen rewards, each when it is done, and a line per failure; 0, or 1 when a case failed."""
    names = chosen_rewards(name)
    width = max(map(len, ("reward", *names)))
    print(f"{'reward':<{width}}  {'cases':>5}  {'failed':>6}  {'seconds':>7}")
    done = []
    for spelling in names:
        done.append(t := selftest(spelling))
        print(f"{t.reward:<{width}}  {t.cases:>5}  {len(t.failures):>6}  {t.seconds:>7.2f}", flush=True)
    for line in (line for test in done for line in test.failures):
        print(f"failed: {line}")
    return FAILED if any(test.failures for test in done) else 0
