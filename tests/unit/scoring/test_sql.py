"""A model's SELECT reads the dataset's tables and does nothing else, within its time."""

import resource
import sqlite3
import time
from pathlib import Path

import pytest

from mmrl.errors import RewardError
from mmrl.scoring.sql import Answered, Failed, run_queries

SCHEMA = "CREATE TABLE t(a INT, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y');"
MEGABYTES = "WITH RECURSIVE n(i, s) AS (SELECT 1, 'a' UNION ALL SELECT i + 1, s || s FROM n WHERE i < 21), "
MEGABYTES += "z(s) AS (SELECT s FROM n WHERE i = 21) "
COUNTING = "(WITH RECURSIVE m(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM m) SELECT i FROM m)"


def ask(sql: str, *, time_limit_s: float = 1.0, most_rows: int = 1000) -> Answered | Failed:
    return run_queries((sql,), schema=SCHEMA, path=None, time_limit_s=time_limit_s, most_rows=most_rows)[0]


def failure(sql: str, **limits) -> str:
    found = ask(sql, **limits)
    assert isinstance(found, Failed), found
    return found.why


def test_rows_and_what_was_read():
    assert ask("SELECT b FROM t WHERE a > 1") == Answered([("y",)], frozenset({("t", "a"), ("t", "b")}))


def test_values_of_every_kind_come_back_as_they_are():
    found = ask("SELECT 1, -9223372036854775808, 0.1, 1e999, 'ä\u2028', x'00ff', NULL")
    assert isinstance(found, Answered)
    assert found.rows == [(1, -(2**63), 0.1, float("inf"), "ä\u2028", b"\x00\xff", None)]


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH DATABASE '/tmp/mmrl-sql.db' AS d",
        "PRAGMA table_info(t)",
        "DELETE FROM t",
        "UPDATE t SET a = 0",
        "INSERT INTO t VALUES (3, 'z')",
        "CREATE TABLE u(a)",
        "VACUUM INTO '/tmp/mmrl-sql.db'",
        "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/tmp/mmrl-sql.db', 'x')",
        "SELECT zeroblob(1000000000)",
        "SELECT 1; SELECT 2",
        "SELECT a FROM t; DROP TABLE t",
        "BEGIN",
        "SELECT * FROM pragma_database_list",
        "SELECT fts3_tokenizer('simple')",
        "SELECT \0",
        "nonsense",
    ],
)
def test_everything_but_one_select_is_refused(sql):
    failure(sql)
    assert not Path("/tmp/mmrl-sql.db").exists()


def test_a_refused_query_leaves_the_database_to_the_next():
    found = run_queries(
        ("DELETE FROM t", "SELECT count(*) FROM t"), schema=SCHEMA, path=None, time_limit_s=1.0, most_rows=5
    )
    assert isinstance(found[0], Failed)
    assert found[1] == Answered([(2,)], frozenset({("t", "")}))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name FROM sqlite_master",
        "SELECT sql FROM main.SQLITE_SCHEMA",
        "SELECT count(*) FROM sqlite_master",
        "SELECT a, (SELECT sql FROM sqlite_master LIMIT 1) FROM t",
        "SELECT * FROM sqlite_temp_master",
        "SELECT seq FROM sqlite_sequence",
        "SELECT stat FROM sqlite_stat1",
        "SELECT name FROM pragma_table_info('t')",
        "SELECT name FROM dbstat",
    ],
)
def test_the_tables_of_sqlite_itself_are_refused(sql):
    schema = "CREATE TABLE t(a INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO t VALUES (1); ANALYZE;"
    allowed, refused = run_queries(("SELECT a FROM t", sql), schema=schema, path=None, time_limit_s=1.0, most_rows=9)
    assert isinstance(allowed, Answered) and allowed.rows == [(1,)]
    assert isinstance(refused, Failed)
    assert any(word in refused.why for word in ("prohibited", "not authorized", "constructor failed"))


def test_views_of_the_dataset_are_read():
    schema = SCHEMA + "CREATE VIEW v AS SELECT a FROM t WHERE a > 1;"
    (found,) = run_queries(("SELECT a FROM v",), schema=schema, path=None, time_limit_s=1.0, most_rows=9)
    assert isinstance(found, Answered) and found.rows == [(2,)]


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n",
        "SELECT count(*) FROM " + ", ".join(f"t AS t{i}" for i in range(30)),
        MEGABYTES + f"SELECT count(*) FROM (SELECT i % 7 AS q FROM z, {COUNTING} ORDER BY q)",
    ],
)
def test_endless_queries_are_ended(sql):
    began = time.monotonic()
    assert failure(sql, time_limit_s=0.3) == "interrupted"
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize(
    "call",
    [
        "instr(s || '', substr(s, 1, 500000) || 'b')",
        "length(replace(s, substr(s, 1, 500000) || 'b', 'c'))",
        "printf('%.*c', 2000000000, 'x')",
    ],
)
def test_one_call_that_takes_a_minute_is_ended_and_the_query_before_it_counts(call):
    began = time.monotonic()
    slow = MEGABYTES + f"SELECT {call} FROM z"
    found = run_queries(("SELECT 1", slow), schema=SCHEMA, path=None, time_limit_s=0.5, most_rows=5)
    assert found[0] == Answered([(1,)], frozenset()) and isinstance(found[1], Failed)
    assert time.monotonic() - began < 6.0


def doubling(levels: int) -> str:
    """A query of 60 bytes a level that SQLite compiles into 2^levels joins."""
    named = ", ".join(f"a{i} AS (SELECT a.x FROM a{i - 1} a, a{i - 1} b)" for i in range(1, levels))
    return f"WITH a0 AS (SELECT 1 x), {named} SELECT count(*) FROM a{levels - 1}"


@pytest.mark.parametrize(
    "sql",
    [
        doubling(25),
        MEGABYTES + "SELECT " + ", ".join(["s"] * 1000) + " FROM z",
        MEGABYTES + f"SELECT s || i, s, s, s FROM z, {COUNTING}",
        MEGABYTES + f"SELECT count(DISTINCT s || i) FROM z, {COUNTING}",
    ],
    ids=["to compile", "one row", "many rows", "to sort"],
)
def test_a_query_that_takes_gigabytes_does_not_take_them_here(sql):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    failure(sql)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_too_many_rows_and_too_long_values_are_refused():
    fifty = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50) SELECT i FROM n"
    assert failure(fifty, most_rows=10) == "more than 10 rows"
    long = (
        "WITH RECURSIVE n(i, s) AS (SELECT 1, 'xy' UNION ALL SELECT i + 1, s || s FROM n WHERE i < 40) "
        "SELECT max(length(s)) FROM n"
    )
    assert "too big" in failure(long)
    assert failure(MEGABYTES + "SELECT " + ", ".join(["s"] * 20) + " FROM z") == (
        "the result is larger than 16000000 bytes"
    )


def test_a_file_is_opened_read_only(tmp_path):
    path = tmp_path / "pets.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(SCHEMA)
    database.close()
    before = path.read_bytes()
    found = run_queries(
        ("DELETE FROM t", "SELECT sum(a) FROM t"), schema=None, path=path, time_limit_s=1.0, most_rows=5
    )
    assert isinstance(found[0], Failed)
    assert found[1] == Answered([(3,)], frozenset({("t", "a")}))
    assert path.read_bytes() == before


def test_databases_that_cannot_be_opened(tmp_path):
    (tmp_path / "x").write_text("no database, but long enough to be looked at")
    for given in (
        {"schema": "CREATE nonsense", "path": None},
        {"schema": None, "path": tmp_path / "x"},
        {"schema": None, "path": tmp_path / "absent"},
    ):
        with pytest.raises(RewardError, match=r"cannot be opened: \w"):
            run_queries(("SELECT 1",), **given, time_limit_s=1.0, most_rows=5)
