"""Running SELECTs on SQLite in the sandbox: read only, one statement each, within limits of time and memory.

What a query may do is said in `sandbox/sql_driver.py`. The sandbox is there for what SQLite cannot limit: a few hundred
bytes can take gigabytes to compile, and one call of `instr` a minute.
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmrl.errors import RewardError
from mmrl.scoring.sandbox import Job, Limits, Tree, run
from mmrl.scoring.sandbox.job import MB
from mmrl.scoring.sandbox.python_runtime import python_script

Row = tuple[object, ...]
_DRIVER = Path(__file__).with_name("sandbox") / "sql_driver.py"
# Starting the sandbox on a busy machine; a query that SQLite cannot interrupt may have it, too.
_START_S = 2.0
_RESULTS_BYTES = 64 * MB


@dataclass(frozen=True, slots=True)
class Answered:
    """Result of a query. reads: (table, column) pairs that it read, in lower case; of COUNT(*) the column is empty."""

    rows: list[Row]
    reads: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Failed:
    """A query that is refused, wrong, too slow or too large. why: SQLite's message, or the limit."""

    why: str


@functools.lru_cache(maxsize=64)
def _database_bytes(schema: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(schema)
        return database.serialize()


def longest_s(queries: int, time_limit_s: float) -> float:
    """The longest that this many queries take together."""
    return queries * time_limit_s + _START_S


def run_queries(
    queries: Sequence[str], *, schema: str | None, path: Path | None, time_limit_s: float, most_rows: int
) -> list[Answered | Failed]:
    """What each query gives on a database made by a script of the dataset, or one of its files, which is not changed.

    Raises RewardError for a script that fails or a file that is no database.
    """
    files = {f"query{i}.sql": sql.encode("utf-8", "replace") for i, sql in enumerate(queries)}
    results = [f"result{i}.json" for i in range(len(queries))]
    if schema is not None:
        files["database"] = _made(schema)
    else:
        assert path is not None
        path = path.resolve()
    arguments = (str(path or "database"), str(len(queries)), str(time_limit_s), str(most_rows))
    job = Job(
        python_script(str(_DRIVER), *arguments),
        files=files,
        reads=(Tree(_DRIVER), *(() if path is None else (Tree(path),))),
        collect=("opened.txt", *results),
        limits=Limits(
            wall_s=longest_s(len(queries), time_limit_s),
            disk_bytes=_RESULTS_BYTES + len(files.get("database", b"")),
        ),
    )
    result = run(job)
    opened = result.files.get("opened.txt", b"").decode()
    if opened != "ok":
        why = opened or result.text("stderr").strip()[-300:] or f"the sandbox was ended before ({result.killed_by})"
        raise RewardError(f"the database cannot be opened: {why}")
    return [_read(result.files.get(name), ended_by=result.killed_by) for name in results]


def _made(schema: str) -> bytes:
    try:
        return _database_bytes(schema)
    except sqlite3.Error as error:
        raise RewardError(f"the database cannot be opened: {error}") from error


def _read(written: bytes | None, *, ended_by: str | None) -> Answered | Failed:
    try:
        found = json.loads(written or b"", object_hook=_blob)
    except ValueError:  # none, or cut off in the middle
        return Failed(f"ended by the sandbox ({ended_by or 'memory'})")
    if "error" in found:
        return Failed(found["error"])
    return Answered([tuple(row) for row in found["rows"]], frozenset((t, c) for t, c in found["reads"]))


def _blob(mapping: Mapping[str, Any]) -> Any:
    return bytes.fromhex(mapping["blob"]) if "blob" in mapping else mapping
