"""Runs SELECTs on an SQLite database inside the sandbox, and writes what each gives into a file of its own.

    python sql_driver.py DATABASE QUERIES SECONDS MOST_ROWS      query0.sql, query1.sql, .. lie in the current folder

result0.json, ..: {"rows": [[..]], "reads": [[table, column]]}, or {"error": text}. A blob is {"blob": hexadecimal}.
opened.txt says "ok", or why the database cannot be opened. Standard library only.

An authorizer allows reading the dataset's tables and views and calling functions, nothing else: no ATTACH, PRAGMA,
writing, extensions, table-valued functions, or SQLite's own tables (`sqlite_master`, `sqlite_sequence`, ...).
A progress handler ends a statement at its time limit; a function that takes longer, or a statement that is costly
to compile, is left to the sandbox's limits.
"""

import json
import sqlite3
import sys
import time
from pathlib import Path

ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}
STEPS = 1000
OWN_TABLES = "sqlite_"  # SQLite refuses to create a table with this beginning
LONGEST_VALUE, LONGEST_PATTERN, LARGEST_RESULT = 2_000_000, 200, 16_000_000


def main(path, queries, seconds, most_rows):
    try:
        database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        Path("opened.txt").write_text(str(error), encoding="utf-8")
        return
    Path("opened.txt").write_text("ok", encoding="utf-8")
    # What does not fit into memory must not go to files that are deleted while they are open.
    database.execute("PRAGMA temp_store = MEMORY")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    database.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LONGEST_PATTERN)
    for number in range(int(queries)):
        sql = Path(f"query{number}.sql").read_text(encoding="utf-8")
        Path(f"result{number}.json").write_text(answer(database, sql, float(seconds), int(most_rows)), encoding="utf-8")


def answer(database, sql, seconds, most_rows):
    """The result file's text."""
    reads = set()
    until = time.monotonic() + seconds

    def authorize(action, first, second, _database, _by):
        if action == sqlite3.SQLITE_READ:
            table = (first or "").casefold()
            if table.startswith(OWN_TABLES):
                return sqlite3.SQLITE_DENY
            reads.add((table, (second or "").casefold()))
        forbidden = action == sqlite3.SQLITE_FUNCTION and (second or "").casefold() in FORBIDDEN_FUNCTIONS
        return sqlite3.SQLITE_OK if action in ALLOWED and not forbidden else sqlite3.SQLITE_DENY

    database.set_authorizer(authorize)
    database.set_progress_handler(lambda: time.monotonic() > until, STEPS)
    try:
        rows = database.execute(sql).fetchmany(most_rows + 1)
        if len(rows) > most_rows:
            return error_text(f"more than {most_rows} rows")
        text = json.dumps({"rows": rows, "reads": sorted(reads)}, default=blob)
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:  # ValueError: a NUL or lone surrogates in the text
        return error_text(str(error))
    except MemoryError:
        return error_text("out of memory")
    return text if len(text) <= LARGEST_RESULT else error_text(f"the result is larger than {LARGEST_RESULT} bytes")


def blob(value):
    return {"blob": value.hex()}


def error_text(why):
    return json.dumps({"error": why})


if __name__ == "__main__":
    main(*sys.argv[1:])
