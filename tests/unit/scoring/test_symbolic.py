"""Symbolic solutions: the grammar, identity by values (sympy as the other opinion), forms, units, and time."""

import doctest
import importlib
import time
from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from mmrl.scoring.expression import DEEPEST, LONGEST, NotReadError, parse_expression
from mmrl.scoring.identity import are_equal, are_proportional, sample_points, values
from mmrl.scoring.solution import guess_form, read_solution, same_solution
from mmrl.scoring.units import unit_of


@pytest.mark.parametrize("name", ["expression", "identity", "solution", "units"])
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(f"mmrl.scoring.{name}"))
    assert result.attempted > 0 and result.failed == 0


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("-x^2", "(neg (^ x 2))"),
        ("2^-3^2", "(^ 2 (neg (^ 3 2)))"),
        ("a/b c", "(* (/ a b) c)"),
        ("2 - 3 - 4", "(- (- 2 3) 4)"),
        (r"\frac12 x", "(* (/ 1 2) x)"),
        (r"\sqrt[3]{x}", "(^ x (/ 1 3))"),
        (r"\sin^2 2x", "(^ (sin (* 2 x)) 2)"),
        (r"\sigma_{x} \cdot P_{max}", "(* sigma_x P_max)"),
        ("x²·π", "(* (^ x 2) pi)"),
        (r"\left|x\right|", "(abs x)"),
        (r"\log_{10} x", "(log_10 x)"),
    ],
)
def test_trees(text, tree):
    assert str(parse_expression(text)) == tree


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "1 +",
            "(1",
            "1)",
            "* 2",
            "{1",
            r"\frac{1}",
            r"\input{/etc/passwd}",
            "x.__class__",
            "f'x'",
            "x = 1",
            "1; 2",
        ),
        *("(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1), "\\sqrt" * 60 + "2", "sin " * 90 + "1", "9" * 61),
        *("x" * (LONGEST + 1), "x " * 300, "1+" * 300 + "1"),
    ],
)
def test_what_is_no_expression(text):
    with pytest.raises(NotReadError):
        parse_expression(text)


def test_a_prediction_holds_symbols_of_the_answer_only():
    assert str(parse_expression("PL", symbols={"P", "L"})) == "(* P L)"
    assert str(parse_expression("PLx_1", symbols={"PL", "x_1"})) == "(* PL x_1)"
    with pytest.raises(NotReadError, match="no symbol of the answer"):
        parse_expression("P q", symbols={"P", "L"})


def _equal(first, second, **assumptions):
    points = sample_points(assumptions)
    return are_equal(*(values(parse_expression(t, symbols=assumptions), points) for t in (first, second)))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("sin(x)^2 + cos(x)^2", "1", True),
        ("sin(x)^2 + cos(x)^2 - 1", "0", True),
        ("(x + y)^8", "(x + y)^7 (x + y)", True),
        ("e^(x + y)", "exp(x) e^y", True),
        ("tan(x)", "sin(x) / cos(x)", True),
        ("1/x + 1/y", "(x + y) / (x y)", True),
        ("cosh(x)", "(e^x + e^(-x)) / 2", True),
        ("x + 1/10^30", "x", False),
        ("6.6e-34", "0", False),
        ("sqrt(x^2)", "x", False),
        ("x^2", "x^3", False),
        ("1/(x - x)", "x", False),
    ],
)
def test_identities_and_none(first, second, same):
    assert _equal(first, second, x="real", y="real") is same


def test_assumptions_decide():
    assert _equal("ln(x^2)", "2 ln x", x="positive") and not _equal("ln(x^2)", "2 ln x", x="real")
    assert _equal("|x|", "-x", x="negative") and _equal("cos(2 pi n)", "1", n="integer")
    with pytest.raises(ValueError, match="positive integer"):
        sample_points({"x": "prime"})


def _expressions():
    leaves = st.sampled_from(["x", "y", "2", "3", "x^2"])
    return st.recursive(
        leaves,
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        max_leaves=6,
    )


@settings(max_examples=60, deadline=None)
@given(_expressions(), _expressions())
def test_sympy_is_of_the_same_opinion(first, second):
    x, y = sympy.symbols("x y", real=True)
    ours, theirs = (eval(text.replace("^", "**"), {"x": x, "y": y}) for text in (first, second))
    expanded = sympy.expand(ours)
    assert _equal(first, second, x="real", y="real") == (sympy.expand(ours - theirs) == 0)
    assert _equal(first, str(expanded).replace("**", "^"), x="real", y="real")


def test_equations_agree_when_proportional():
    points = sample_points({"x": "real", "y": "real"})
    first, double, other = (values(parse_expression(t), points) for t in ("y - 2x - 1", "4x - 2y + 2", "y - 2x - 2"))
    assert are_proportional(double, first) and not are_proportional(other, first)
    zero = values(parse_expression("x - x"), points)
    assert not are_proportional(zero, first) and not are_proportional(zero, zero)


@pytest.mark.parametrize(
    ("found", "gold", "same"),
    [
        ("{1, 1, 2}", "{2, 1}", True),
        ("{}", "{1}", False),
        ("{}", r"\emptyset", True),
        ("(1, 2)", "(2, 1)", False),
        (r"\{x, y\}", "{y, x}", True),
        ("[1, 2) or (3, oo)", "(3, oo) ∪ [1, 2)", True),
        ("[1, 2]", "[1, 2)", False),
        ("(-oo, oo)", "(-oo, 0) U (0, oo)", False),
        ("[[1, 2]]", "[[1], [2]]", False),
        (r"\begin{bmatrix} x & 0 \\ 0 & 1 \end{bmatrix}", "[[x, 0], [0, 1]]", True),
        ("x^2 - 4 = 0", "x^2 = 4", True),
        ("x = y = 1", "x = 1", False),
        ("x = 2, x = -2", "{-2, 2}", True),
        ("x = 2, y = -2", "x = -2, y = 2", False),
    ],
)
def test_forms(found, gold, same):
    form = guess_form(gold)
    points = sample_points({"x": "real", "y": "real"})
    right = read_solution(gold, form, symbols={"x", "y"})
    try:
        assert same_solution(read_solution(found, form, symbols={"x", "y"}), right, points) is same
    except NotReadError:
        assert not same
    assert same_solution(right, right, points)


def test_decimals_agree_within_the_tolerance_and_exact_numbers_exactly():
    points = sample_points({})
    third = read_solution("1/3", "expression")
    assert same_solution(read_solution("0.3333", "expression"), third, points)
    assert not same_solution(read_solution("0.333", "expression"), third, points, rel_tol=1e-4)
    assert not same_solution(read_solution("3333/10000", "expression"), third, points)


@pytest.mark.parametrize(
    "text",
    [
        *("10^10^10^10", "exp(exp(exp(exp(9))))", "sin(10^10^9)", "2^(2^(2^(2^(2^2))))", "cosh(cosh(cosh(9)))"),
        *("1/0", "ln(0)", "0^(-1)", "tan(pi/2)^(10^9)", "(10^9)^(10^9)", "10^(10^5) - 10^(10^5)", "1e999^1e999"),
    ],
)
def test_what_is_too_large_or_undefined_has_no_value_soon(text):
    start = time.process_time()
    assert not _equal(text, "1") and time.process_time() - start < 0.5


@pytest.mark.parametrize("unit", ["sin(x)^x ", "e^x/x ", "ln(x)+", "(x+1)^9 "])
def test_the_longest_expression_is_compared_soon(unit):
    text = (unit * 200)[:700].rstrip("+ ")
    while True:
        try:
            tree = parse_expression(text, symbols={"x"})
            break
        except NotReadError:
            text = text[:-1].rstrip("+ ")
    start = time.process_time()
    values(tree, sample_points({"x": "real"}))
    assert time.process_time() - start < 3


def test_units():
    assert unit_of("kNm") == unit_of("kN*m") == unit_of("kN m") == unit_of(r"kN \cdot m")
    assert unit_of("kg m s^-2") == unit_of("N") and unit_of("N/mm²") == unit_of("MPa")
    assert unit_of("mm^4").factor == Fraction(1, 10**12) and unit_of("mg").factor == Fraction(1, 10**6)
    assert unit_of("km/h").factor == Fraction(1000, 3600) and unit_of("mm").powers == unit_of("km").powers
    assert [unit_of(text) for text in ("", "parsec", "5", "/m", "m^99", "m + s")] == [None] * 6
