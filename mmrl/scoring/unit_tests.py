"""Unit tests of code as datasets write them, and running a solution on them in the sandbox.

What a test expects never enters the sandbox: programs get inputs, calls or expressions, and their output is compared
here. Forms that are read (a list or mapping, or the same as JSON text):

    {"inputs": [..], "outputs": [..]}                     programs that read stdin and print
    {"fn_name": "f", "inputs": [[args], ..], "outputs": [..]}   functions, also methods of a class `Solution`
    [{"input": .., "output": ..}, ..]                     either, with or without `fn_name` per test
    ["assert f(1) == 2", ..]                              assertions about plain values

A test may carry its `pass_rate` (a list beside inputs, or a key of the test).
"""

from __future__ import annotations

import ast
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmrl.scoring.sandbox import Job, Limits, Tree, run
from mmrl.scoring.sandbox.call_driver import encode
from mmrl.scoring.sandbox.python_runtime import python_script

_DRIVER = Path(__file__).with_name("sandbox") / "call_driver.py"


@dataclass(frozen=True, slots=True)
class UnitTest:
    """One test. stdin: what a program reads; else call: a function with arguments, or an expression.

    expected: the printed text, or the value in the encoding of `call_driver.encode`.
    """

    expected: Any
    stdin: str | None = None
    call: Mapping[str, Any] | None = None
    pass_rate: float | None = None


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
        call, expected = _read_assertion(row["assert"])
        return UnitTest(expected, call=call, pass_rate=rate)
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


def _read_assertion(text: str) -> tuple[dict[str, Any], Any]:
    """`assert a == b` with one plain side becomes the other side and that value; any other becomes its truth."""
    try:
        tree = ast.parse(text.strip())
    except SyntaxError as error:
        raise ValueError(f"{text!r} is no Python: {error.msg}") from error
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Assert):
        raise ValueError(f"{text!r} is not one assertion")
    test = tree.body[0].test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        for asked, plain in ((test.left, test.comparators[0]), (test.comparators[0], test.left)):
            try:
                return {"expression": ast.unparse(asked)}, encode(ast.literal_eval(plain))
            except (ValueError, TypeError):
                continue
    return {"expression": f"bool({ast.unparse(test)})"}, True


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
        outcomes = _outcomes(code, rest, settings, left=left)
        if outcomes and outcomes[-1].get("fatal"):
            break
        found = [_matches(o, t, settings.float_tolerance) for o, t in zip(outcomes, rest, strict=False)]
        passed += found if len(found) == len(rest) else [*found, False]
        if settings.stop_early and not all(passed):
            break
    return passed + [False] * (len(tests) - len(passed))


def _outcomes(code: str, tests: Sequence[UnitTest], settings: RunSettings, *, left: float) -> list[dict[str, Any]]:
    plan = {"calls": [test.call for test in tests], "seconds": settings.test_s}
    job = Job(
        python_script(str(_DRIVER)),
        files={"solution.py": code.encode(), "calls.json": json.dumps(plan).encode()},
        reads=(Tree(_DRIVER), *settings.reads),
        env=settings.env,
        limits=Limits(wall_s=left, memory_bytes=settings.memory_bytes),
    )
    lines = run(job).text().splitlines()
    outcomes = []
    for line in lines[: len(tests)]:
        try:
            outcomes.append(json.loads(line))
        except (json.JSONDecodeError, RecursionError):
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
        return found == expected or math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
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


def _close(found: str, expected: str, tolerance: float) -> bool:
    try:
        return math.isclose(float(found), float(expected), rel_tol=tolerance, abs_tol=tolerance)
    except ValueError:
        return False
