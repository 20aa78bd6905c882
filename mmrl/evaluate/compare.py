"""Two evaluations of the same questions, compared question by question. Pure."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmrl.config.judge_section import WITHOUT_JUDGE
from mmrl.evaluate.numbers import Numbers, Question, numbers_of, worth

# What numbers of one task depend on beside the model, as results.json names it. All but the budgets are in the task
# hash; where the hash differs and they do not, another part of the task file does.
_OF_TASK = ("answers", "template", "version", "judge", "budgets")


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A over the n questions of both. low, high: 95% interval of the difference b - a.

    only_a, only_b: questions that one alone has right, p: McNemar's exact test; None unless all scores are 0 or 1.
    """

    n: int
    a: float
    b: float
    low: float
    high: float
    only_a: int | None = None
    only_b: int | None = None
    p: float | None = None

    @property
    def difference(self) -> float:
        return self.b - self.a


def compare(a: Mapping[str, Question], b: Mapping[str, Question]) -> Comparison:
    """Questions by key, at least one of them in both. Their columns may have `groups`, `all_of` and `cluster`, as
    scores.jsonl names them: what its task averages and resamples by. The interval is that of resamples in which a
    question (or a cluster) brings both of its scores.

    >>> ask = lambda *scores: {str(n): Question(str(n), (score,), 0, {}) for n, score in enumerate(scores)}
    >>> found = compare(ask(1.0, 0.0, 0.0, 1.0), ask(1.0, 1.0, 1.0, 1.0))
    >>> found.difference, found.only_a, found.only_b, found.p
    (0.5, 0, 2, 0.5)
    """
    pairs = _pairs(a, b)
    if not pairs:
        raise ValueError("no question in common")
    # The score is linear in the values of pairs: the score of their differences is the difference of the scores.
    moved = _numbers([(pair, pair.b - pair.a) for pair in pairs])
    counts: dict[str, Any] = {}
    if all(value in (0.0, 1.0) for pair in pairs for value in (pair.a, pair.b)):
        only_a, only_b = (sum(pair.a - pair.b == sign for pair in pairs) for sign in (1.0, -1.0))
        counts = {"only_a": only_a, "only_b": only_b, "p": mcnemar(only_a, only_b)}
    score_a, score_b = (_numbers([(pair, getattr(pair, side)) for pair in pairs]).score for side in "ab")
    return Comparison(len(pairs), score_a, score_b, moved.low, moved.high, **counts)


def mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided p of the exact test: were both equally good, each of these questions were a fair coin (McNemar 1947).

    >>> mcnemar(1, 5)
    0.21875
    >>> mcnemar(0, 0)
    1.0
    """
    n, fewer = only_a + only_b, min(only_a, only_b)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(fewer + 1)) / 2**n)


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """What the numbers of a task depend on and is not equal, a line each. a, b: its rows of two results.json."""
    found = [name for name in _OF_TASK if a.get(name) != b.get(name)]
    for name in found:
        yield from _unequal(name, a.get(name), b.get(name))
    if a.get("task_hash") != b.get("task_hash") and not set(found) - {"budgets"}:
        yield f"task file: hash {a.get('task_hash')} and {b.get('task_hash')}"


def file_differences(a: Mapping[str, Any], b: Mapping[str, Any], task: str) -> Iterator[str]:
    """Files that a task's rows were read from and that are not equal, whatever they are called; a, b: two results.json,
    whole. Nothing where one does not say.
    """
    files = [(of.get("data") or {}).get(task) for of in (a, b)]
    if files[0] and files[1] and sorted(files[0].values()) != sorted(files[1].values()):
        yield from _unequal("files", *files)


def named_apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether one of them has its score by the judge of the task, and the other one without."""
    return (WITHOUT_JUDGE in a) != (WITHOUT_JUDGE in b)


def setting_differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    """The same of all tasks: engine and versions. a, b: two results.json, whole. Model and seed may differ."""
    yield from _unequal("engine", a.get("engine"), b.get("engine"))
    versions = [(of.get("environment") or {}).get("versions") or {} for of in (a, b)]
    yield from _unequal("versions", *versions)


def only_in_one(a: Mapping[str, Question], b: Mapping[str, Question]) -> Iterator[str]:
    """Questions that one side alone has, with the first of their keys."""
    for name, keys in (("A", [key for key in a if key not in b]), ("B", [key for key in b if key not in a])):
        if keys:
            shown = ", ".join(keys[:3]) + (", ..." if len(keys) > 3 else "")
            yield f"questions: {len(keys)} are in {name} only ({shown})"


def _unequal(name: str, a: Any, b: Any) -> Iterator[str]:
    """Of two mappings the keys that differ, else the values."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys((*a, *b)):
            yield from _unequal(f"{name}.{key}", a.get(key), b.get(key))
    elif a != b:
        yield f"{name}: {json.dumps(a, ensure_ascii=False)} and {json.dumps(b, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class _Pair:
    """What a question is worth on both sides; of rows that are one question together, what the worst of them is."""

    a: float
    b: float
    columns: Mapping[str, Any]


def _pairs(a: Mapping[str, Question], b: Mapping[str, Question]) -> list[_Pair]:
    rows: dict[tuple, list[str]] = defaultdict(list)
    for key in a:
        if key in b:
            rows[tuple(a[key].columns.get("all_of") or (key,))].append(key)
    return [
        _Pair(worth([a[key] for key in keys]), worth([b[key] for key in keys]), a[keys[0]].columns)
        for keys in rows.values()
    ]


def _numbers(values: Sequence[tuple[_Pair, float]]) -> Numbers:
    """The score and its interval, where each pair is worth the value beside it."""
    first = values[0][0].columns
    questions = [
        Question(str(number), (value,), 0, {**pair.columns, **_by_depth(pair.columns)})
        for number, (pair, value) in enumerate(values)
    ]
    return numbers_of(questions, groups=list(_by_depth(first)), cluster="cluster" if "cluster" in first else None)


def _by_depth(columns: Mapping[str, Any]) -> dict[str, str]:
    return {str(depth): value for depth, value in enumerate(columns.get("groups", ()))}
