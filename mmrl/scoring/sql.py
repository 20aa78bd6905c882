"""Running a model's SELECT on SQLite: read only, one statement, within a time limit.

An authorizer allows reading the dataset's tables and views and calling functions, nothing else: no ATTACH, PRAGMA,
writing, extensions, table-valued functions, or SQLite's own tables (`sqlite_master`, `sqlite_sequence`, ...).
A progress handler ends the statement at its time limit; lengths of values and patterns are limited too.
"""

from __future__ import annotations

import functools
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mmrl.errors import RewardError

Row = tuple[object, ...]
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "randomblob", "zeroblob"}
# One call can loop for a minute ('%.*c'), and only between calls can a statement be ended.
_SLOW_FUNCTIONS = {"printf", "format"}
_STEPS = 1000
_OWN_TABLES = "sqlite_"  # SQLite refuses to create a table with this beginning


@dataclass(frozen=True, slots=True)
class Answered:
    """Result of a query. reads: (table, column) pairs that it read, in lower case; of COUNT(*) the column is empty.

    functions: names of those it called.
    """

    rows: list[Row]
    reads: frozenset[tuple[str, str]]
    functions: frozenset[str]


@functools.lru_cache(maxsize=64)
def _database_bytes(schema: str) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(schema)
        return database.serialize()


@contextmanager
def open_database(*, schema: str | None, path: Path | None) -> Iterator[sqlite3.Connection]:
    """A database made by a script of the dataset, or one of its files, which is not changed.

    Raises RewardError for a script that fails or a file that is no database.
    """
    try:
        if schema is not None:
            database = sqlite3.connect(":memory:")
            database.deserialize(_database_bytes(schema))
        else:
            assert path is not None
            database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise RewardError(f"the database cannot be opened: {error}") from error
    try:
        yield database
    finally:
        database.close()


def query(
    database: sqlite3.Connection,
    sql: str,
    *,
    time_limit_s: float,
    most_rows: int,
    slow_functions: Collection[str] = frozenset(),
) -> Answered:
    """Run one SELECT. sqlite3.Error for whatever is refused, wrong or too slow, and for more rows than `most_rows`.

    slow_functions: of `printf` and `format`, which can outlast the time limit, those that may be called.
    """
    reads: set[tuple[str, str]] = set()
    functions: set[str] = set()
    refused = _FORBIDDEN_FUNCTIONS | (_SLOW_FUNCTIONS - set(slow_functions))
    until = time.monotonic() + time_limit_s

    def authorize(action: int, first: str | None, second: str | None, _database: str | None, _by: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            table = (first or "").casefold()
            if table.startswith(_OWN_TABLES):
                return sqlite3.SQLITE_DENY
            reads.add((table, (second or "").casefold()))
        if action == sqlite3.SQLITE_FUNCTION:
            functions.add((second or "").casefold())
        allowed = action in _ALLOWED and not (functions & refused)
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2_000_000)
    database.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200)
    database.set_authorizer(authorize)
    database.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        rows = database.execute(sql).fetchmany(most_rows + 1)
    except (sqlite3.Warning, ValueError, UnicodeError) as error:  # two statements; NUL or lone surrogates in the text
        raise sqlite3.ProgrammingError(str(error)) from error
    finally:
        database.set_authorizer(None)
        database.set_progress_handler(None, 0)
    if len(rows) > most_rows:
        raise sqlite3.DataError(f"more than {most_rows} rows")
    return Answered(rows, frozenset(reads), frozenset(functions))
