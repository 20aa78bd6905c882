"""Tokens of a formula, each with a colour of its own."""

import pytest

from mmrl.scoring.coloured_formula import MOST_TOKENS, colour_of, coloured, plain_token


@pytest.mark.parametrize(
    ("latex", "tokens"),
    [
        (r"\frac ab + x_{12}", ["\\frac", "a", "b", "+", "x", "1", "2"]),
        (r"\left( a \right] \quad \big| \!", ["(", "a", "]", "\\big|"]),
        (r"f''^2", ["f", "\\prime", "\\prime", "2"]),
        (r"\mathrm{max} \operatorname*{arg}", list("maxarg")),
        (r"\begin{array}{c|c} a & b \\[2pt] c & d \end{array}", list("abcd")),
        (r"\sqrt[3]{\hat x}", ["\\sqrt", "3", "\\hat", "x"]),
        (r"a \cdots b \tag{1} \label{eq:b} \color{red} c", list("a...bc")),
        (r"\left. x \right|_0", ["x", "|", "0"]),
        (r"\text{若 } x", ["若", "x"]),
        (r"\phantom{abc} \hspace{1cm} x", ["x"]),
        (r"\overset{!}{=}", ["!", "="]),
    ],
)
def test_what_shows_is_a_token(latex, tokens):
    assert list(coloured(latex).tokens) == tokens


@pytest.mark.parametrize("latex", [r"\frac{a}{", "}", r"\frac a", r"\sqrt[3", "x^", "x" * (MOST_TOKENS + 1)])
def test_what_is_no_formula(latex):
    with pytest.raises(ValueError, match=r"group|brace|argument|tokens"):
        coloured(latex)


def test_every_token_has_a_colour_of_its_own():
    colours = [colour_of(number) for number in range(MOST_TOKENS)]
    assert len(set(colours)) == MOST_TOKENS and not {(0, 0, 0), (255, 255, 255)} & set(colours)
    assert all(0 <= value <= 255 for colour in colours for value in colour)
    assert [colour_of(n) for n in (0, 17, 323)] == [(0, 0, 15), (0, 15, 0), (15, 0, 0)]


@pytest.mark.parametrize(
    ("one", "other"),
    [(r"\leq", r"\le"), (r"\rightarrow", r"\to"), (r"\Big(", "("), (r"\bigl\{", r"\{"), (r"\varphi", r"\phi")],
)
def test_spellings_of_the_same(one, other):
    assert plain_token(one) == plain_token(other)
    assert (
        plain_token(r"\big|") == "|" and plain_token("a") != plain_token("b") and plain_token(r"\bigcup") == r"\bigcup"
    )
