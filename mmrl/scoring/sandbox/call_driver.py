"""Calls a solution's functions inside the sandbox and prints what they return, one JSON line a call.

    python call_driver.py            solution.py and calls.json lie in the current folder

calls.json: seconds per call, and calls: {"function": name, "arguments": [...]} or {"expression": text}, the latter with
the `values` of its names v0, v1, .. if it has any. `exact`: tuples stay apart from lists. What calls should return is
not here, so the program under test cannot find it. Standard library only.
"""

import functools
import io
import json
import os
import runpy
import signal
import sys
from pathlib import Path

MOST_BITS = 14_000  # Python writes and reads integers of 4300 digits


class OutOfTime(BaseException):
    """Not an Exception, so that a solution's own `except Exception` does not swallow it."""


def main():
    plan = json.loads(Path("calls.json").read_text(encoding="utf-8"))
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdin = io.StringIO()
    signal.signal(signal.SIGALRM, _raise_out_of_time)
    names = _guarded(lambda: runpy.run_path("solution.py", run_name="solution"), plan["seconds"])
    for call in plan["calls"] if "value" in names else ():
        outcome = _guarded(lambda call=call: result(call, names["value"]), plan["seconds"])
        report.write(json.dumps(outcome) + "\n")
        report.flush()
    if "value" not in names:
        report.write(json.dumps({**names, "fatal": True}) + "\n")
        report.flush()
    os._exit(0)


def _guarded(action, seconds):
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return {"value": action()}
    except OutOfTime:
        return {"error": "timeout"}
    except BaseException as error:  # noqa: BLE001 - a solution may raise anything, SystemExit too
        return {"error": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _raise_out_of_time(*_):
    raise OutOfTime


def result(call, names):
    return encode(_called(call, names), exact=call.get("exact", False))


def _called(call, names):
    if "expression" in call:
        values = {f"v{i}": decode(value) for i, value in enumerate(call.get("values", ()))}
        return eval(call["expression"], {**names, **values} if values else names)
    name = call["function"]
    owner = names.get("Solution")
    function = names[name] if name in names else getattr(owner(), name)
    return function(*[decode(argument) for argument in call["arguments"]])


def encode(value, *, exact=False):
    """Plain values as JSON that keeps their kind: lists, tuples (lists unless `exact`), sets, mappings with any keys.

    Only exact built-in types: an object of the solution's own, with an equality of its own, is no result.
    """
    kind = type(value)
    if kind is int and value.bit_length() > MOST_BITS:
        raise ValueError(f"an integer of {value.bit_length()} bits")
    if value is None or kind in (bool, int, float, str):
        return value
    parts = functools.partial(encode, exact=exact)
    if kind in (list, tuple):
        return ["tuple" if exact and kind is tuple else "list", *map(parts, value)]
    if kind in (set, frozenset):
        return ["set", *sorted(map(parts, value), key=json.dumps)]
    if kind is dict:
        return ["dict", *sorted(([parts(k), parts(v)] for k, v in value.items()), key=json.dumps)]
    if hasattr(value, "tolist") and kind.__module__ == "numpy":
        return parts(value.tolist())
    raise TypeError(f"a result of type {kind.__name__}")


def decode(value):
    if not isinstance(value, list):
        return value
    kind, *parts = value
    if kind == "dict":
        return {decode(k): decode(v) for k, v in parts}
    return {"set": set, "tuple": tuple, "list": list}[kind](map(decode, parts))


if __name__ == "__main__":
    main()
