"""What happened to the media of a run: counts, failures, the last line of the command."""

from __future__ import annotations

from dataclasses import dataclass, field

from mmrl.data.cache import PixelCache


@dataclass(frozen=True, slots=True)
class Failure:
    """A medium, or a row, that cannot be used: a line of failures.jsonl. path is None for a row that names none."""

    path: str | None
    where: str
    reason: str


@dataclass
class Outcome:
    """What happened to the media of a run so far: built + cached + repeated + failures = all.

    bad_rows are apart from them: rows whose media are not even looked at.
    """

    built: int = 0
    cached: int = 0
    repeated: int = 0
    failures: list[Failure] = field(default_factory=list)
    bad_rows: list[Failure] = field(default_factory=list)

    @property
    def failed_counts(self) -> str:
        """`2 failed, 1 bad rows`."""
        rows = f", {len(self.bad_rows)} bad rows" if self.bad_rows else ""
        return f"{len(self.failures)} failed{rows}"

    def summary(self, cache: PixelCache, *, seconds: float, listed: str) -> str:
        """The last line of the command. listed: where the failures are."""
        metrics = cache.metrics()
        named = f"; failures: {listed}" if self.failures or self.bad_rows else ""
        return (
            f"{self.built} built, {self.cached} already cached, {self.repeated} of repeated content, "
            f"{self.failed_counts}; {metrics['rebuilt']} damaged entries rebuilt; "
            f"{metrics['bytes_written'] / 1e6:.1f} MB written, {cache.hashes.bytes_hashed / 1e6:.1f} MB hashed "
            f"in {seconds:.1f} s; cache: {cache.folder}{named}"
        )
