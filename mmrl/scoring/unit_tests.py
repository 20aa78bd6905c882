"""Unit tests of code as datasets write them, and running a solution on them in the sandbox.

What a test expects never enters the sandbox: programs get inputs, calls or expressions, and their output is compared
here. Forms that are read (a list or mapping, or the same as JSON text):

    {"inputs": [..], "outputs": [..]}                     programs that read stdin and print
    {"fn_name": "f", "inputs": [[args], ..], "outputs": [..]}   functions, also methods of a class `Solution`
    [{"input": .., "output": ..}, ..]                     either, with or without `fn_name` per test
    ["assert f(1) == 2", ..]                              assertions about plain values

What an assertion compares with is computed in a sandbox of its own, without the program (`assertions.py`).

A test may carry its `pass_rate` (a list beside inputs, or a key of the test).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mmrl.scoring.assertions import split_assertion
from mmrl.scoring.sandbox import Job, Limits, Tree, run
from mmrl.scoring.sandbox.call_driver import encode
from mmrl.scoring.sandbox.python_runtime import python_script

_DRIVER = Path(__file__).with_name("sandbox") / "call_driver.py"


@dataclass(frozen=True, slots=True)
class UnitTest:
    """One test. stdin: what a program reads; else call: a function with arguments, or an expression.

    expected: the printed text, or the value in the encoding of `call_driver.encode`.
    verdict: instead of `expected`, an expression that must be true of the values (v0, v1, ..) that the call gave.
    """

    expected: Any = None
    stdin: str | None = None
    call: Mapping[str, Any] | None = None
    pass_rate: float | None = None
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How tests are run. total_s: all tests of a solution; test_s: one. stop_early: no test after a failed one."""

    total_s: float
    test_s: float
    memory_bytes: int
    float_tolerance: float = 0.0
    stop_early: bool = False
    reads: tuple[Tree, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def read_tests(answer: Any) -> tuple[UnitTest, ...]:
    """The tests of a row. ValueError, saying what is wrong, for anything that is none of the forms."""
    if isinstance(answer, str):
        try:
            answer = json.loads(answer)
        except json.JSONDecodeError as error:
            raise ValueError(f"unit tests as text must be JSON: {error}") from error
    if isinstance(answer, Mapping):
        answer = _columns_to_rows(answer)
    if not isinstance(answer, list | tuple) or not answer:
        raise ValueError("unit tests must be a list that is not empty, or a mapping with inputs and outputs")
    return tuple(_read_test(row, number=i) for i, row in enumerate(answer))


def _columns_to_rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    inputs, outputs = columns.get("inputs"), columns.get("outputs")
    if not isinstance(inputs, list | tuple) or not isinstance(outputs, list | tuple) or len(inputs) != len(outputs):
        raise ValueError("unit tests need lists `inputs` and `outputs` of one length")
    rows = [{"input": i, "output": o} for i, o in zip(inputs, outputs, strict=True)]
    if "fn_name" in columns:
        rows = [{**row, "fn_name": columns["fn_name"]} for row in rows]
    rates = columns.get("pass_rates")
    if rates is not None:
        rows = [{**row, "pass_rate": rate} for row, rate in zip(rows, rates, strict=True)]
    return rows


def _read_test(row: Any, *, number: int) -> UnitTest:
    if isinstance(row, str):
        row = {"assert": row}
    if not isinstance(row, Mapping):
        raise ValueError(f"unit test {number} is neither a mapping nor an assertion")
    rate = row.get("pass_rate")
    if rate is not None and not (isinstance(rate, int | float) and 0 <= rate <= 1):
        raise ValueError(f"unit test {number}: pass_rate {rate!r} is no number from 0 to 1")
    if "assert" in row:
        found = split_assertion(row["assert"])
        call = {"expression": found.asked, "exact": found.verdict is not None}
        return UnitTest(encode(found.equals), call=call, pass_rate=rate, verdict=found.verdict)
    if "input" not in row or "output" not in row:
        raise ValueError(f"unit test {number} has neither `input` and `output` nor `assert`")
    if row.get("fn_name"):
        call = {"function": row["fn_name"], "arguments": [encode(a) for a in _arguments(row["input"])]}
        return UnitTest(encode(_value(row["output"])), call=call, pass_rate=rate)
    return UnitTest(str(row["output"]), stdin=str(row["input"]), pass_rate=rate)


def _arguments(written: Any) -> list[Any]:
    """The arguments: a list, or text with one JSON value a line."""
    if isinstance(written, str):
        return [json.loads(line) for line in written.splitlines() if line.strip()]
    return list(written) if isinstance(written, list | tuple) else [written]


def _value(written: Any) -> Any:
    if isinstance(written, str):
        try:
            return json.loads(written)
        except json.JSONDecodeError:
            return written
    return written


def run_tests(code: str, tests: Sequence[UnitTest], settings: RunSettings) -> list[bool]:
    """Whether each test passes. Tests left when the total time is over, or after an early stop, do not."""
    until = time.monotonic() + settings.total_s
    if all(test.call is not None for test in tests):
        return _run_calls(code, tests, settings, until=until)
    passed: list[bool] = []
    for test in tests:
        left = until - time.monotonic()
        if left <= 0.1 or (settings.stop_early and not all(passed)):
            break
        passed.append(
            _run_calls(code, [test], settings, until=until)[0]
            if test.stdin is None
            else _run_program(code, test, settings, left=left)
        )
    return passed + [False] * (len(tests) - len(passed))


def _run_program(code: str, test: UnitTest, settings: RunSettings, *, left: float) -> bool:
    limits = Limits(wall_s=min(settings.test_s, left), memory_bytes=settings.memory_bytes)
    job = Job(
        python_script("solution.py"),
        files={"solution.py": code.encode()},
        stdin=(test.stdin or "").encode(),
        reads=settings.reads,
        env=settings.env,
        limits=limits,
    )
    result = run(job)
    return result.ok and same_output(result.text(), test.expected, tolerance=settings.float_tolerance)


def _run_calls(code: str, tests: Sequence[UnitTest], settings: RunSettings, *, until: float) -> list[bool]:
    """All calls in one process; where a call ends the process, the calls after it get a new one."""
    passed: list[bool] = []
    while len(passed) < len(tests) and (left := until - time.monotonic()) > 0.1:
        rest = tests[len(passed) :]
        outcomes = _outcomes(code, [test.call for test in rest], settings, left=left)
        if outcomes and outcomes[-1].get("fatal"):
            break
        found = _verdicts(outcomes, rest, settings, left=until - time.monotonic())
        passed += found if len(found) == len(rest) else [*found, False]
        if settings.stop_early and not all(passed):
            break
    return passed + [False] * (len(tests) - len(passed))


def _verdicts(
    outcomes: Sequence[Mapping[str, Any]], tests: Sequence[UnitTest], settings: RunSettings, *, left: float
) -> list[bool]:
    """Whether each outcome is what its test wants. Expressions are judged without the program that gave the values."""
    pairs = list(zip(outcomes, tests, strict=False))
    judged = [i for i, (outcome, test) in enumerate(pairs) if test.verdict is not None and _is_list(outcome)]
    calls = [{"expression": f"bool({pairs[i][1].verdict})", "values": pairs[i][0]["value"][1:]} for i in judged]
    plain = replace(settings, reads=(), env={})
    answers = _outcomes("import math", calls, plain, left=left) if calls and left > 0.1 else []
    true = {i for i, answer in zip(judged, answers, strict=False) if answer.get("value") is True}
    return [
        i in true if test.verdict is not None else _matches(outcome, test, settings.float_tolerance)
        for i, (outcome, test) in enumerate(pairs)
    ]


def _is_list(outcome: Mapping[str, Any]) -> bool:
    value = outcome.get("value")
    return isinstance(value, list) and value[:1] == ["list"]


def _outcomes(code: str, calls: Sequence[Any], settings: RunSettings, *, left: float) -> list[dict[str, Any]]:
    plan = {"calls": list(calls), "seconds": settings.test_s}
    job = Job(
        python_script(str(_DRIVER)),
        files={"solution.py": code.encode(), "calls.json": json.dumps(plan).encode()},
        reads=(Tree(_DRIVER), *settings.reads),
        env=settings.env,
        limits=Limits(wall_s=left, memory_bytes=settings.memory_bytes),
    )
    lines = run(job).text().splitlines()
    outcomes = []
    for line in lines[: len(calls)]:
        try:
            outcomes.append(json.loads(line))
        # The program can write anything here: no JSON, lists too deep, an integer of more digits than Python reads.
        except (ValueError, RecursionError):
            break
    return [o for o in outcomes if isinstance(o, dict)]


def _matches(outcome: Mapping[str, Any], test: UnitTest, tolerance: float) -> bool:
    return "value" in outcome and same_value(outcome["value"], test.expected, tolerance=tolerance)


def same_value(found: Any, expected: Any, *, tolerance: float) -> bool:
    """Equality of encoded values; numbers within an absolute or relative tolerance, true and 1 told apart."""
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(
            same_value(f, e, tolerance=tolerance) for f, e in zip(found, expected, strict=True)
        )
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return found == expected or _near(found, expected, tolerance)
    return type(found) is type(expected) and found == expected


def same_output(found: str, expected: str, *, tolerance: float) -> bool:
    """Equality of printed text, without the blanks at line ends and the empty lines at the end.

    With a tolerance, lines may also agree word by word, numbers within it.
    """
    lines, wanted = _lines(found), _lines(expected)
    if lines == wanted or tolerance <= 0:
        return lines == wanted
    words, wanted_words = [line.split() for line in lines], [line.split() for line in wanted]
    return [len(line) for line in words] == [len(line) for line in wanted_words] and all(
        a == b or _close(a, b, tolerance)
        for line, other in zip(words, wanted_words, strict=True)
        for a, b in zip(line, other, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _near(found: float, expected: float, tolerance: float) -> bool:
    try:
        return math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # an integer beyond the largest float
        return False


def _close(found: str, expected: str, tolerance: float) -> bool:
    try:
        return math.isclose(float(found), float(expected), rel_tol=tolerance, abs_tol=tolerance)
    except ValueError:
        return False
