"""`mmrl score`: which of its four jobs is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mmrl.errors import ConfigError

FIXTURES = "fixtures"
FUZZ_SECONDS = 10.0
RUN_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """What the command line names; exactly one of the four.

    file: completions to score. selftest, fuzz: a reward or `all`. hack_report: JSONL, a run's YAML, or `fixtures`.
    The other fields are options of some of the jobs; None (False): not given.
    """

    file: Path | None = None
    selftest: str | None = None
    fuzz: str | None = None
    hack_report: str | None = None
    config: Path | None = None
    out: Path | None = None
    seconds: float | None = None
    seed: int | None = None
    strict: bool = False

    def check(self) -> None:
        """ConfigError unless exactly one job is asked for, with options that it has."""
        jobs = {
            "a FILE of completions": self.file,
            "--selftest": self.selftest,
            "--fuzz": self.fuzz,
            "--hack-report": self.hack_report,
        }
        asked = [name for name, value in jobs.items() if value is not None]
        if len(asked) != 1:
            raise ConfigError(f"give one of: {', '.join(jobs)}")
        for option, wanted in self._misplaced():
            raise ConfigError(f"{option} needs {wanted}; with {asked[0]} it has no effect, leave it out")

    def _misplaced(self) -> Iterator[tuple[str, str]]:
        """The given options that the job does not have, each with what it needs."""
        of_fuzz, of_report = self.fuzz is not None, self.hack_report is not None
        has_rows = self.file is not None or (of_report and _is_rows(self.hack_report or ""))
        given_and_used = {
            "--config": (self.config is not None, has_rows, "rows: a FILE of completions or --hack-report FILE.jsonl"),
            "--out": (self.out is not None, self.file is not None, "a FILE of completions"),
            "--seconds": (self.seconds is not None, of_fuzz, "--fuzz"),
            "--seed": (self.seed is not None, of_fuzz, "--fuzz"),
            "--strict": (self.strict, of_report, "--hack-report"),
        }
        yield from ((name, wanted) for name, (given, used, wanted) in given_and_used.items() if given and not used)


def score_command(request: ScoreRequest) -> int:
    """Do what is asked for and return the exit code."""
    request.check()
    if request.selftest is not None:
        from mmrl.scoring.selftest import selftest_command

        return selftest_command(request.selftest)
    if request.fuzz is not None:
        from mmrl.scoring.fuzz import fuzz_command

        return fuzz_command(
            request.fuzz, seconds=FUZZ_SECONDS if request.seconds is None else request.seconds, seed=request.seed or 0
        )
    if request.hack_report is not None:
        return _hack_report(request.hack_report, config=request.config, strict=request.strict)
    from mmrl import api

    assert request.file is not None
    return api.score(request.file, config=request.config, out=request.out)


def _is_rows(target: str) -> bool:
    """Whether a hack report's target is a file of rows, whose rewards another file may name."""
    return target != FIXTURES and Path(target).suffix not in RUN_SUFFIXES


def _hack_report(target: str, *, config: Path | None, strict: bool) -> int:
    from mmrl.scoring.hack_data import fixture_targets, row_targets, run_targets
    from mmrl.scoring.hack_report import hack_report

    if target == FIXTURES:
        targets = fixture_targets()
    else:
        targets = row_targets(Path(target), config=config) if _is_rows(target) else run_targets(Path(target))
    return hack_report(targets, strict=strict)
