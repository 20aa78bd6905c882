"""Predicting what a program does: its result, the statements it runs, the values of its variables.

Formula: 0 unless the result is right; else (1 - alpha) + alpha * (questions right) / (questions). Without questions, 1.
A row that asks for an input (`code` in the answer) scores 1 if the call gives the wanted result, run in the sandbox.
Bounds: 0 to 1.
Answer: in `<answer>` tags, one line each: `assert f(3) == 7`, then the answers about statements (the statement's text),
then those about variables (`value; type`). Too few lines answer no question; with too many it is no answer at all.
Space: none.
Unit: seconds (`time_limit_s`, of the run that an input row needs).
Source: ExecVerify (alpha 0.5; its released total is twice this: set `weight: 2`). It takes any assertion that holds and
contains the arguments, so `assert True or f(3)` passes there; here the call and a plain value must be compared.
Example: result right, 1 of 2 questions right: 0.75. Result wrong, both questions right: 0.
"""

import ast
from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.parse import extract_prediction
from mmrl.scoring.sandbox.call_driver import encode
from mmrl.scoring.sandbox.preflight import require_sandbox
from mmrl.scoring.unit_tests import RunSettings, UnitTest, run_tests, same_value

BOUNDS = (0.0, 1.0)
CHANCE = 0.0
_LONGEST = 20_000
_WANTED = "a mapping with `call`, `result`, and lists `statements` and `states` (or `function`, `result` and `code`)"


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    require_sandbox("exec_trace", options, timeout_s=timeout_s)


def score(
    completion: str,
    sample: Sample,
    *,
    alpha: float = 0.5,
    time_limit_s: float = 4.0,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    """`alpha`: the share of the questions in the reward of a right result."""
    gold = sample.answer
    if not isinstance(gold, Mapping) or "result" not in gold or not ({"call", "code"} & set(gold)):
        raise bad_answer(sample, wanted=_WANTED)
    statements, states = list(gold.get("statements") or ()), list(gold.get("states") or ())
    asked = len(statements) + len(states)
    lines = (extract_prediction(completion, answer="tag") or "").splitlines()
    if len(lines) > 1 + asked:
        return {"reward": 0.0, "result": 0.0}
    claim = _assertion(lines[0]) if lines and len(lines[0]) <= _LONGEST else None
    if "code" in gold:
        right = claim is not None and _runs(claim, gold, time_limit_s=time_limit_s)
        return {"reward": float(right), "result": float(right)}
    result = claim is not None and _same_call(claim[0], str(gold["call"])) and _equal(claim[1], _plain(gold["result"]))
    answers = lines[1:] if len(lines) - 1 == asked else [""] * asked
    right = sum(_says_statement(a, s) for a, s in zip(answers, statements, strict=False))
    right += sum(_says_state(a, s) for a, s in zip(answers[len(statements) :], states, strict=True))
    share = right / asked if asked else 1.0
    value = (1.0 - alpha + alpha * share) if result else 0.0
    return {"reward": value, "result": float(result), "questions": share}


def _assertion(line: str) -> tuple[ast.Call, Any] | None:
    """The call and the plain value of `assert call == value`."""
    try:
        tree = ast.parse(line.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    test = tree.body[0].test if len(tree.body) == 1 and isinstance(tree.body[0], ast.Assert) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    if not isinstance(test.left, ast.Call):
        return None
    try:
        return test.left, ast.literal_eval(test.comparators[0])
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None


def _same_call(call: ast.Call, wanted: str) -> bool:
    return ast.dump(call) == ast.dump(ast.parse(wanted.strip(), mode="eval").body)


def _runs(claim: tuple[ast.Call, Any], gold: Mapping[str, Any], *, time_limit_s: float) -> bool:
    """Whether the call, its arguments plain values, gives the wanted result."""
    call, value = claim
    wanted = _plain(gold["result"])
    if not _equal(value, wanted) or not isinstance(call.func, ast.Name) or call.func.id != gold.get("function"):
        return False
    try:
        for argument in [*call.args, *(k.value for k in call.keywords)]:
            ast.literal_eval(argument)
    except (ValueError, TypeError):
        return False
    test = UnitTest(encode(wanted), call={"expression": ast.unparse(call)})
    settings = RunSettings(total_s=time_limit_s, test_s=time_limit_s, memory_bytes=1_000_000_000)
    return run_tests(str(gold["code"]), [test], settings)[0]


def _plain(written: Any) -> Any:
    """A value of the row: text is read as a Python literal where it is one."""
    if not isinstance(written, str):
        return written
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return written


def _equal(found: Any, wanted: Any) -> bool:
    """Equal, and of one type; parts of lists and tuples alike."""
    try:
        return type(found) is type(wanted) and same_value(encode(found), encode(wanted), tolerance=0.0)
    except TypeError:
        return False


def _says_statement(answer: str, accepted: Any) -> bool:
    texts = [accepted] if isinstance(accepted, str) else list(accepted)
    return bool(answer.strip()) and any(answer.strip() == str(text).strip() for text in texts)


def _says_state(answer: str, accepted: Any) -> bool:
    """`value; type` against pairs (type, value) of which any may be meant."""
    value, separator, kind = answer.rpartition(";")
    pairs = [accepted] if accepted and isinstance(accepted[0], str) else accepted
    return (
        bool(separator)
        and len(value) <= _LONGEST
        and any(
            kind.strip() == name.strip() and _is_value(value.strip(), wanted, kind=name.strip())
            for name, wanted in pairs
        )
    )


def _is_value(answer: str, wanted: Any, *, kind: str) -> bool:
    if kind == "str" and answer == str(wanted):
        return True
    try:
        return _equal(ast.literal_eval(answer), wanted if kind == "str" else _plain(wanted))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return False
