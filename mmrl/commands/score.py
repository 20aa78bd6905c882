"""`mmrl score`: which of its four jobs is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mmrl.errors import ConfigError

FIXTURES = "fixtures"


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """What the command line names; exactly one of the four.

    file: completions to score. selftest, fuzz: a reward or `all`. hack_report: JSONL, a run's YAML, or `fixtures`.
    """

    file: Path | None = None
    selftest: str | None = None
    fuzz: str | None = None
    hack_report: str | None = None

    def check(self) -> None:
        """ConfigError unless exactly one job is asked for."""
        asked = [value for value in (self.file, self.selftest, self.fuzz, self.hack_report) if value is not None]
        if len(asked) != 1:
            raise ConfigError("give one of: a FILE of completions, --selftest, --fuzz, --hack-report")


def score_command(
    request: ScoreRequest,
    *,
    config: Path | None = None,
    out: Path | None = None,
    seconds: float = 10.0,
    seed: int = 0,
    strict: bool = False,
) -> int:
    """Do what is asked for and return the exit code."""
    request.check()
    if request.selftest is not None:
        from mmrl.scoring.selftest import selftest_command

        return selftest_command(request.selftest)
    if request.fuzz is not None:
        from mmrl.scoring.fuzz import fuzz_command

        return fuzz_command(request.fuzz, seconds=seconds, seed=seed)
    if request.hack_report is not None:
        return _hack_report(request.hack_report, config=config, strict=strict)
    from mmrl import api

    assert request.file is not None
    return api.score(request.file, config=config, out=out)


def _hack_report(target: str, *, config: Path | None, strict: bool) -> int:
    from mmrl.scoring.hack_data import dataset_targets, fixture_targets
    from mmrl.scoring.hack_report import hack_report

    if target == FIXTURES:
        return hack_report(fixture_targets(), strict=strict)
    return hack_report(dataset_targets(Path(target), config=config), strict=strict)
