"""Python code by its unit tests, run in the sandbox.

Formula: all: 1 if every test passes, else 0. rate: passed / tests. mimo_strict, mimo_soft: tests of equal pass rate are
a group, easiest first, worth group_scores (default 1, 2, 4, ..); strict: a group counts if it and all easier ones pass
whole; soft: each passed test counts its share of the group; divided by the sum of scores. exponential: sum of
exp(sharpness * (1 - pass rate)) over passed tests, divided by the sum over all.
Bounds: 0 to 1.
Answer: the last fenced Python block after the thought, or what stands in `<answer>` tags. A test passes if the program
prints the expected text, or the call returns the expected plain value (lists and tuples alike).
Space: none.
Unit: seconds: `time_limit_s` for all tests of a completion, `test_limit_s` for one.
Source: EasyVideoR1 (code), MiMo (strict and soft), CVeDRL (exponential weights by difficulty; its abstract names the
exponential, the constant is ours). What a test expects never enters the program's sandbox. Of an assertion the calls
do, and their values are judged in another one; of `all(f(x) > 1 for x in ..)` and the like a program gives the truths.
Example: tests print 2 and print 3, the program prints 2: all 0, rate 0.5.
"""

from collections.abc import Mapping
from typing import Any, Literal

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.code_blocks import extract_code
from mmrl.scoring.difficulty import exponential_score, groups_by_pass_rate, mimo_score
from mmrl.scoring.sandbox.preflight import require_sandbox
from mmrl.scoring.sandbox.python_runtime import package_trees
from mmrl.scoring.think_tags import OPEN, strip_thoughts
from mmrl.scoring.unit_tests import RunSettings, UnitTest, read_tests, run_tests

BOUNDS = (0.0, 1.0)
CHANCE = 0.0


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    package_trees(*options["packages"])
    require_sandbox("code_tests", options, timeout_s=timeout_s)


def score(
    completion: str,
    sample: Sample,
    *,
    credit: Literal["all", "rate", "mimo_strict", "mimo_soft", "exponential"] = "all",
    group_scores: tuple[float, ...] | list[float] = (),
    sharpness: float = 1.0,
    packages: tuple[str, ...] | list[str] = (),
    time_limit_s: float = 8.0,
    test_limit_s: float = 4.0,
    memory_mb: int = 1024,
    float_tolerance: float = 0.0,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    """`packages`: installed packages that programs may import, with what they require. `memory_mb`: of a program."""
    tests = _tests(sample, credit)
    code = _program(completion)
    trees, folder = package_trees(*packages)
    settings = RunSettings(
        total_s=time_limit_s,
        test_s=test_limit_s,
        memory_bytes=memory_mb * 1_000_000,
        float_tolerance=float_tolerance,
        stop_early=credit == "all",
        reads=trees,
        env={"PYTHONPATH": folder} if packages else {},
    )
    passed = run_tests(code, tests, settings) if code else [False] * len(tests)
    value = _credit(passed, tests, credit=credit, group_scores=group_scores, sharpness=sharpness)
    return {"reward": value, "passed": float(sum(passed)), "tests": float(len(tests))}


def _program(completion: str) -> str | None:
    """The code, without the thoughts inside it (Think-Anywhere)."""
    code = extract_code(completion)
    return strip_thoughts(code) if code and OPEN in code else code


def _tests(sample: Sample, credit: str) -> tuple[UnitTest, ...]:
    try:
        tests = read_tests(sample.answer)
    except (ValueError, TypeError) as error:
        raise RewardError(f"{sample.where}: {error}") from error
    if credit not in ("all", "rate") and any(test.pass_rate is None for test in tests):
        raise RewardError(f"{sample.where}: credit {credit!r} needs the pass_rate of every test")
    return tests


def _credit(
    passed: list[bool], tests: tuple[UnitTest, ...], *, credit: str, group_scores: Any, sharpness: float
) -> float:
    if credit == "all":
        return float(all(passed))
    if credit == "rate":
        return sum(passed) / len(passed)
    rates = [float(test.pass_rate or 0.0) for test in tests]
    if credit == "exponential":
        return exponential_score(passed, rates, sharpness=sharpness)
    groups = groups_by_pass_rate(rates)
    scores = list(group_scores) or [2.0**i for i in range(len(groups))]
    if len(scores) != len(groups):
        raise RewardError(f"{len(scores)} group_scores for tests of {len(groups)} pass rates")
    return mimo_score([[passed[i] for i in group] for group in groups], scores, strict=credit == "mimo_strict")
