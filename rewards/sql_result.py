"""A SELECT by what it returns on SQLite.

Formula: 1 if the rows equal the gold query's; else rows_credit * F1 of the rows + schema_credit * Jaccard of the
(table, column) pairs read. 0 for a query that fails, is too slow, or reads no table although the gold one does.
Bounds: 0 to 1.
Answer: the last fenced SQL block, or what stands in `<answer>` tags: one SELECT. Rows count with repetition, their
order if `ordered` says so or, by default, the gold query has an ORDER BY of its own. Numbers agree to 7 digits. Only
the row's tables and views can be read, by the gold query too: of SQLite's own (`sqlite_master`) a query fails.
Space: none.
Unit: seconds (`time_limit_s`, of each of the two queries).
Source: execution accuracy of the text-to-SQL benchmarks; the credits are ours. The row's `answer` is
the gold query; the column `schema` holds the script that makes the database, or `database` the path of a file.
Example: gold rows {1, 2, 3}, returned {1, 2}: 0; with rows_credit 0.5: 0.5 * 0.8 = 0.4.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, RewardError
from mmrl.scoring.code_blocks import extract_code
from mmrl.scoring.gold import gold_text
from mmrl.scoring.sandbox.preflight import require_sandbox
from mmrl.scoring.sql import Answered, Failed, Row, longest_s, run_queries

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
_ORDERED = re.compile(r"\border\s+by\b(?![^()]*\))", re.IGNORECASE)


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    both = {**options, "time_limit_s": longest_s(2, options["time_limit_s"])}
    require_sandbox("sql_result", both, timeout_s=timeout_s)
    if options["rows_credit"] + options["schema_credit"] >= 1:
        raise ConfigError("sql_result: rows_credit and schema_credit together must stay below 1, the right result's")


def score(
    completion: str,
    sample: Sample,
    *,
    rows_credit: float = 0.0,
    schema_credit: float = 0.0,
    ordered: Literal["auto", "yes", "no"] = "auto",
    time_limit_s: float = 2.0,
    most_rows: int = 10_000,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    """`rows_credit`, `schema_credit`: the most that a wrong result can get for its rows and for what it read."""
    gold_sql = gold_text(sample)
    sql = extract_code(completion, languages=("sql", "sqlite"))
    schema, path = sample.columns.get("schema"), sample.columns.get("database")
    if not isinstance(schema, str) and not isinstance(path, str):
        raise RewardError(f"{sample.where}: the row has no column `schema` (a script) or `database` (a file)")
    gold, found = run_queries(
        (gold_sql, sql or ""),
        schema=schema if isinstance(schema, str) else None,
        path=Path(path) if isinstance(path, str) else None,
        time_limit_s=time_limit_s,
        most_rows=most_rows,
    )
    gold = _checked(gold, sample)
    if isinstance(found, Failed):
        return {"reward": 0.0, "runs": 0.0, "rows_f1": 0.0, "schema": 0.0}
    if not sql or (gold.reads and not found.reads):
        return {"reward": 0.0, "runs": float(bool(sql)), "rows_f1": 0.0, "schema": 0.0}
    in_order = ordered == "yes" or (ordered == "auto" and _ORDERED.search(gold_sql) is not None)
    rows_f1, schema_share = _f1(found.rows, gold.rows), _jaccard(found.reads, gold.reads)
    right = _equal(found.rows, gold.rows, in_order=in_order)
    value = 1.0 if right else rows_credit * rows_f1 + schema_credit * schema_share
    return {"reward": value, "runs": 1.0, "rows_f1": rows_f1, "schema": schema_share}


def _checked(gold: Answered | Failed, sample: Sample) -> Answered:
    if isinstance(gold, Failed):
        raise RewardError(f"{sample.where}: the gold query fails: {gold.why}")
    if not gold.rows:
        raise RewardError(f"{sample.where}: the gold query returns no rows, so any query without a result equals it")
    return gold


def _key(row: Row) -> Row:
    """Numbers rounded, so that equal ones meet; their kind does not count, as in SQL."""
    return tuple(_rounded(value) for value in row)


def _rounded(value: object) -> object:
    if not isinstance(value, int | float):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else str(value)


def _equal(found: list[Row], gold: list[Row], *, in_order: bool) -> bool:
    keys, gold_keys = [_key(row) for row in found], [_key(row) for row in gold]
    return keys == gold_keys if in_order else Counter(keys) == Counter(gold_keys)


def _f1(found: list[Row], gold: list[Row]) -> float:
    common = Counter(map(_key, found)) & Counter(map(_key, gold))
    return 2.0 * common.total() / (len(found) + len(gold))


def _jaccard(found: frozenset[tuple[str, str]], gold: frozenset[tuple[str, str]]) -> float:
    return len(found & gold) / len(found | gold) if found | gold else 1.0
