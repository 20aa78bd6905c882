"""A model's SELECT reads the dataset's tables and does nothing else, within its time."""

import sqlite3
import time

import pytest

from mmrl.errors import RewardError
from mmrl.scoring.sql import open_database, query

SCHEMA = "CREATE TABLE t(a INT, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y');"


def ask(sql: str, *, time_limit_s: float = 1.0, most_rows: int = 1000):
    with open_database(schema=SCHEMA, path=None) as database:
        return query(database, sql, time_limit_s=time_limit_s, most_rows=most_rows)


def test_rows_and_what_was_read():
    found = ask("SELECT b FROM t WHERE a > 1")
    assert found.rows == [("y",)] and found.reads == {("t", "a"), ("t", "b")}


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
        "SELECT printf('%.*c', 2000000000, 'x')",
        "SELECT 1; SELECT 2",
        "SELECT a FROM t; DROP TABLE t",
        "BEGIN",
        "SELECT \0",
        "nonsense",
    ],
)
def test_everything_but_one_select_is_refused(sql, tmp_path):
    with pytest.raises(sqlite3.Error):
        ask(sql)
    assert ask("SELECT count(*) FROM t").rows == [(2,)]


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
    with open_database(schema=schema, path=None) as database:
        assert query(database, "SELECT a FROM t", time_limit_s=1.0, most_rows=9).rows == [(1,)]
        with pytest.raises(sqlite3.DatabaseError, match=r"prohibited|not authorized|constructor failed"):
            query(database, sql, time_limit_s=1.0, most_rows=9)


def test_views_of_the_dataset_are_read():
    with open_database(schema=SCHEMA + "CREATE VIEW v AS SELECT a FROM t WHERE a > 1;", path=None) as database:
        assert query(database, "SELECT a FROM v", time_limit_s=1.0, most_rows=9).rows == [(2,)]


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n",
        "SELECT count(*) FROM " + ", ".join(f"t AS t{i}" for i in range(30)),
    ],
)
def test_endless_queries_are_ended(sql):
    began = time.monotonic()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        ask(sql, time_limit_s=0.3)
    assert time.monotonic() - began < 2.0


def test_too_many_rows_and_too_long_values_are_refused():
    with pytest.raises(sqlite3.Error, match="more than 10 rows"):
        ask("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 50) SELECT i FROM n", most_rows=10)
    with pytest.raises(sqlite3.Error, match="too big"):
        ask(
            "WITH RECURSIVE n(i, s) AS (SELECT 1, 'xy' UNION ALL SELECT i + 1, s || s FROM n WHERE i < 40) "
            "SELECT max(length(s)) FROM n"
        )


def test_a_file_is_opened_read_only(tmp_path):
    path = tmp_path / "pets.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(SCHEMA)
    database.close()
    with open_database(schema=None, path=path) as opened:
        assert query(opened, "SELECT sum(a) FROM t", time_limit_s=1.0, most_rows=5).rows == [(3,)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            opened.execute("DELETE FROM t")


def test_databases_that_cannot_be_opened(tmp_path):
    (tmp_path / "x").write_text("no database, but long enough to be looked at")
    for given in ({"schema": "CREATE nonsense", "path": None}, {"schema": None, "path": tmp_path / "x"}):
        with pytest.raises(RewardError, match="cannot be opened"), open_database(**given):
            pass
