"""Code in completions, unit tests in rows, and what running one on the other tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmrl.scoring.code_blocks import extract_code
from mmrl.scoring.difficulty import exponential_score, groups_by_pass_rate, mimo_score
from mmrl.scoring.sandbox.call_driver import decode, encode
from mmrl.scoring.sandbox.python_runtime import package_trees
from mmrl.scoring.think_tags import inside_a_line, strip_thoughts
from mmrl.scoring.unit_tests import RunSettings, read_tests, run_tests, same_output, same_value

SETTINGS = RunSettings(total_s=8.0, test_s=2.0, memory_bytes=1_000_000_000)
GROUPS = st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        ("```python\na\n```\n```py\nb\n```", "b"),
        ("```\na\n```", "a"),
        ("```python\na\n```\n```json\n{}\n```", "a"),
        ("```python\ncut off", None),
        ("<think>```python\na\n```", None),
        ("<think>```python\na\n```</think>b", None),
        ("<answer>x = 1</answer>", "x = 1"),
        ("~~~python\nprint('```')\n~~~", "print('```')"),
        ("````python\n```\n````", "```"),
        ("plain words", None),
        ("```python\n```", None),
    ],
)
def test_the_code_of_a_completion(completion, code):
    assert extract_code(completion) == code


def test_mimo_worked_numbers():
    flags = [[True, True], [True, False], [True, True]]
    assert mimo_score(flags, [1, 2, 4], strict=True) == pytest.approx(1 / 7)
    assert mimo_score(flags, [1, 2, 4], strict=False) == pytest.approx(6 / 7)
    assert (
        mimo_score([[True] * 2] * 3, [1, 2, 4], strict=True)
        == mimo_score([[True] * 2] * 3, [1, 2, 4], strict=False)
        == 1
    )
    assert mimo_score([[True, False]], [1], strict=True) == 0


@given(GROUPS)
def test_soft_is_never_below_strict(groups):
    scores = [2.0**i for i in range(len(groups))]
    strict, soft = mimo_score(groups, scores, strict=True), mimo_score(groups, scores, strict=False)
    assert 0 <= strict <= soft + 1e-12 <= 1 + 1e-9
    if all(map(all, groups)):
        assert strict == soft == 1
    if not any(map(any, groups)):
        assert strict == soft == 0


def test_hard_tests_weigh_more():
    assert groups_by_pass_rate([0.1, 0.9, 0.1]) == [[1], [0, 2]]
    hard = exponential_score([False, True], [1.0, 0.0], sharpness=2.0)
    assert hard == pytest.approx(0.880797, abs=1e-6)
    assert exponential_score([True, False], [1.0, 0.0], sharpness=0.0) == 0.5


@pytest.mark.parametrize(
    "answer",
    [
        {"inputs": ["3"], "outputs": ["6"]},
        '{"inputs": ["3"], "outputs": ["6"]}',
        [{"input": "3", "output": "6"}],
    ],
)
def test_forms_of_programs_tests(answer):
    tests = read_tests(answer)
    assert run_tests("print(int(input()) * 2)", tests, SETTINGS) == [True]
    assert run_tests("print(7)", tests, SETTINGS) == [False]


@pytest.mark.parametrize(
    "answer",
    [
        {"fn_name": "f", "inputs": [[2, [1]]], "outputs": [[2, 1]]},
        {"fn_name": "f", "inputs": ["2\n[1]"], "outputs": ["[2, 1]"]},
        ["assert f(2, [1]) == [2, 1]"],
        ["assert [2, 1] == f(2, [1])"],
        ["assert f(2, [1])[0] == 2 and len(f(2, [1])) == 2"],
    ],
)
def test_forms_of_function_tests(answer):
    tests = read_tests(answer)
    assert run_tests("def f(a, b):\n    return (a, *b)", tests, SETTINGS) == [True]
    assert run_tests("class Solution:\n    def f(self, a, b):\n        return None", tests, SETTINGS) == [False]


@pytest.mark.parametrize(
    "answer", [[], {}, "x", {"inputs": [1], "outputs": []}, ["f(1) == 2"], ["assert"], [3], [{"input": 1}], None]
)
def test_rows_that_hold_no_tests(answer):
    with pytest.raises(ValueError, match=r"unit test|assertion|Python"):
        read_tests(answer)


def test_results_must_be_plain_values():
    tests = read_tests(["assert f() == 1"])
    for trick in (
        "class L(int):\n    def __eq__(self, o): return True\ndef f(): return L(0)",
        "import unittest.mock as m\ndef f(): return m.ANY",
        "import os\ndef f(): os._exit(0)",
        "import sys\ndef f(): sys.exit(0)",
        "def f(): print('{\"value\": 1}')",
        "import os\nfor d in range(3, 9):\n    try: os.write(d, b'[1]')\n    except OSError: pass\ndef f(): return 0",
    ):
        assert run_tests(trick, tests, SETTINGS) == [False], trick


ABOUT_VALUES = ["assert f(2, [1])[0] == 2 and len(f(2, [1])) == 2", "assert f(3, [4]) > (3,)"]


@pytest.mark.parametrize(
    "trick",
    [
        "bool = lambda x: True\ndef f(*a): return ()",
        "import builtins\nbuiltins.bool = builtins.all = builtins.len = lambda x: True\ndef f(*a): return ()",
        "import os\nfor d in range(3, 9):\n    try: os.write(d, b'{\"value\": true}\\n' * 2)\n"
        "    except OSError: pass\nos._exit(0)",
        "class A:\n  __eq__ = __gt__ = lambda s, o: True\n  __getitem__ = lambda s, i: s\n  __len__ = lambda s: 2\n"
        "def f(*a): return A()",
        "import sys\nframe = sys._getframe()\nwhile frame.f_back:\n  frame = frame.f_back\n"
        "  if 'encode' in frame.f_globals: frame.f_globals.update(encode=lambda *a, **k: True)\n"
        "def f(*a): return 1",
        "import gc\nfor o in gc.get_objects():\n  if isinstance(o, dict) and 'calls' in o:\n"
        "    o['calls'][:] = [{'expression': 'True'}] * 2\ndef f(*a): return 1",
        "import sys, json\nsys.modules['json'].dumps = lambda *a, **k: '{\"value\": true}'\ndef f(*a): return 1",
        "import json\njson.dump([{'expression': 'True'}], open('calls.json', 'w'))\ndef f(*a): return 1",
        "import atexit\natexit.register(print, '{\"value\": true}')\ndef f(*a): return 1",
        "class A:\n  def __del__(self): print('{\"value\": true}')\ndef f(*a): return A()",
    ],
)
def test_a_program_cannot_pass_by_what_it_does_to_its_judge(trick):
    assert run_tests(trick, read_tests(ABOUT_VALUES), SETTINGS) == [False, False]


def test_what_values_are_compared_with_is_not_where_the_program_is():
    code = """
import gc, sys
SEEN = open("calls.json").read() + str([o for o in gc.get_objects() if type(o) in (dict, list)])
frame = sys._getframe()
while frame:
    SEEN += str(frame.f_globals) + str(frame.f_locals)
    frame = frame.f_back
def f():
    assert "calls.json" in SEEN and "expression" in SEEN  # the search does see what is there
    return "a sec" + "ret" if "a sec" + "ret" in SEEN else "nothing"
"""
    tests = read_tests(
        ["assert f() == 'a secret'", "assert len(f()) > 0 and 'a secret' == f()", "assert len(f()) == 7"]
    )
    assert run_tests(code, tests, SETTINGS) == [False, False, True]


@pytest.mark.parametrize(
    ("assertion", "holds"),
    [
        ("assert f(2, 3) is not None and f(2, 3) == (2, 3)", True),
        ("assert f(2, 3) is not None and f(2, 3) == [2, 3]", False),
        ("assert set(f(2, 3)) == set([3, 2])", True),
        ("assert not f(2, 3) == (3, 2), 'swapped'", True),
        ("assert math.isclose(f(1, 2)[1], 2.0000001, rel_tol=1e-3)", True),
        ("assert isinstance(f(1, 2), tuple)", True),
        ("assert all(f(x, 0)[0] == x for x in (1, 2))", True),
        ("assert any(f(x, 0)[0] == 7 for x in (1, 2))", False),
        ("assert sum(y for y in f(1, 2)) == 3", True),
        ("assert f(f(1, 2)[0], K) == (1, 5)", True),
        ("assert ', '.join(map(str, f(1, 2))) in ('1, 2', 'x')", True),
        ("assert sorted(f(3, 2), key=lambda n: n)[0] < 3 and True", True),
        ("assert C(4).twice() in (8, 9)", True),
        ("assert {1: (f(1, 2),)} == {1: (f(1, 2),)}", True),
        ("assert undefined(1) or True", False),
    ],
)
def test_assertions_of_many_forms(assertion, holds):
    code = "K = 5\ndef f(a, b): return (a, b)\nclass C:\n    def __init__(self, n): self.n = n\n"
    code += "    def twice(self): return 2 * self.n"
    assert run_tests(code, read_tests([assertion]), SETTINGS) == [holds]


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.set_int_max_str_digits(0)\ndef f(): return 10**5000",
        "def f(): return 10**400",
        "def f():\n  a = []\n  for _ in range(100_000): a = [a]\n  return a",
        "import os\nfor d in range(3, 9):\n    try: os.write(d, b'{\"value\": ' + b'[' * 200_000 + b'\\n')\n"
        "    except OSError: pass\nos._exit(0)",
        "import os\nfor d in range(3, 9):\n    try: os.write(d, b'{\"value\": ' + b'1' * 5000 + b'}\\n')\n"
        "    except OSError: pass\nos._exit(0)",
        "def f(): return 'x' * 500_000_000",
        "def f(): return float('nan')",
        "def f(): return '\\ud800'",
        "raise SystemExit",
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\ndef f(): raise KeyboardInterrupt",
    ],
)
def test_results_that_are_none_are_wrong_and_no_error_of_the_reward(code):
    assert run_tests(code, read_tests(["assert f() == 4.5"]), SETTINGS) == [False]


def test_true_is_not_one_and_lists_are_tuples():
    assert not same_value(encode(True), encode(1), tolerance=0.0)
    assert same_value(encode((1, [2])), encode([1, (2,)]), tolerance=0.0)
    assert same_value(encode(0.1 + 0.2), encode(0.3), tolerance=1e-9)
    assert not same_value(encode(0.1 + 0.2), encode(0.3), tolerance=0.0)
    assert decode(encode({1: {2, 3}, "a": [None]})) == {1: {2, 3}, "a": [None]}


def test_printed_text():
    assert same_output("1 \n2\n\n", "1\n2", tolerance=0.0)
    assert not same_output("1\n\n2", "1\n2", tolerance=0.0)
    assert same_output("0.33333 a", "0.333334 a", tolerance=1e-4) and not same_output("0.3 a", "0.4 a", tolerance=1e-4)


def test_a_call_that_ends_the_process_costs_only_itself():
    tests = read_tests(["assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3"])
    code = "import os\ndef f(x):\n    return x if x != 2 else os._exit(1)"
    assert run_tests(code, tests, SETTINGS) == [True, False, True]


def test_a_slow_call_costs_only_itself():
    tests = read_tests(["assert f(1) == 1", "assert f(2) == 2", "assert f(3) == 3"])
    quick = RunSettings(total_s=8.0, test_s=0.5, memory_bytes=1_000_000_000)
    code = "def f(x):\n    while x == 2:\n        pass\n    return x"
    assert run_tests(code, tests, quick) == [True, False, True]


def test_named_packages_can_be_imported_and_others_cannot():
    tests = read_tests(["assert f() == 6"])
    trees, folder = package_trees("numpy")
    with_numpy = RunSettings(
        total_s=20.0, test_s=9.0, memory_bytes=2_000_000_000, reads=trees, env={"PYTHONPATH": folder}
    )
    assert run_tests("import numpy\ndef f(): return numpy.arange(4).sum()", tests, with_numpy) == [True]
    assert run_tests("import torch\ndef f(): return 6", tests, with_numpy) == [False]


def test_thoughts_inside_code():
    code = "x = <thinkanywhere>a\nb</thinkanywhere>1\n<thinkanywhere>c</thinkanywhere>\ny = 2"
    assert strip_thoughts(code) == "x = 1\n\ny = 2"
    assert list(inside_a_line(code)) == [True, False]
    for broken in (
        "<thinkanywhere>",
        "</thinkanywhere>",
        "<thinkanywhere><thinkanywhere></thinkanywhere></thinkanywhere>",
    ):
        assert strip_thoughts(broken) is None
