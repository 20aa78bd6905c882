"""Calls a solution's functions inside the sandbox and prints what they return, one JSON line a call.

    python call_driver.py            solution.py and calls.json lie in the current folder

calls.json: seconds per call, and calls: {"function": name, "arguments": [...]} or {"expression": text}. What they
should return is not here, so the program under test cannot find it. Standard library only.
"""

import io
import json
import os
import runpy
import signal
import sys
from pathlib import Path


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
        outcome = _guarded(lambda call=call: encode(_called(call, names["value"])), plan["seconds"])
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


def _called(call, names):
    if "expression" in call:
        return eval(call["expression"], names)
    name = call["function"]
    owner = names.get("Solution")
    function = names[name] if name in names else getattr(owner(), name)
    return function(*[decode(argument) for argument in call["arguments"]])


def encode(value):
    """Plain values as JSON that keeps their kind: lists and tuples alike, sets, mappings with any keys.

    Only exact built-in types: an object of the solution's own, with an equality of its own, is no result.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return ["list", *map(encode, value)]
    if kind in (set, frozenset):
        return ["set", *sorted(map(encode, value), key=json.dumps)]
    if kind is dict:
        return ["dict", *sorted(([encode(k), encode(v)] for k, v in value.items()), key=json.dumps)]
    if hasattr(value, "tolist") and kind.__module__ == "numpy":
        return encode(value.tolist())
    raise TypeError(f"a result of type {kind.__name__}")


def decode(value):
    if not isinstance(value, list):
        return value
    kind, *parts = value
    if kind == "dict":
        return {decode(k): decode(v) for k, v in parts}
    return set(map(decode, parts)) if kind == "set" else [decode(part) for part in parts]


if __name__ == "__main__":
    main()
