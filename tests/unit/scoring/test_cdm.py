"""CDM: formulas compared by the places of their tokens, as pdfTeX renders them."""

import shutil

import numpy as np
import pytest

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError
from mmrl.plugins import load_module, shipped_dir
from mmrl.scoring.cdm import Rendered, cdm_score, matched_share, rendered

BIG = r"\sum_{i=1}^{n}\frac{\hat{x}_i'}{\sqrt{2\pi}} = \left( a + b \right)^2 "
BIG += r"\leq \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"
tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")


def row(*places: tuple[str, int, int]) -> Rendered:
    """Tokens whose boxes are 10 pixels wide, of a picture of 400 x 100."""
    boxes = [(x, y, x + 10, y + 10) for _, x, y in places]
    return Rendered(tuple(token for token, _, _ in places), np.array(boxes, dtype=float), (400, 100))


LINE = [(token, 40 * n, 40) for n, token in enumerate("abcdefgh")]


def test_matches_are_the_same_token_at_the_same_place():
    assert matched_share(row(*LINE), row(*LINE)) == 1
    assert matched_share(row(*LINE[:-1], ("x", 280, 40)), row(*LINE)) == 14 / 16
    assert matched_share(row(*LINE[:4]), row(*LINE)) == pytest.approx(8 / 12)
    assert matched_share(row(("x", 0, 0)), row(("y", 0, 0))) == 0


def test_a_shift_of_all_is_no_error_and_one_that_is_elsewhere_is():
    assert matched_share(row(*((token, x + 100, y + 30) for token, x, y in LINE)), row(*LINE)) == 1
    assert matched_share(row(*LINE[:-1], ("h", 280, 90)), row(*LINE)) == 14 / 16


def test_another_spelling_of_a_token_is_no_error():
    leq, le = (row(*LINE, (token, 350, 40)) for token in (r"\leq", r"\le"))
    assert matched_share(leq, le) == 1


@tex
@pytest.mark.parametrize(
    ("found", "wanted", "score"),
    [
        (BIG, BIG, 1.0),
        (r"\frac ab \le x^2", r"\frac{a}{b} \leq x^{2}", 1.0),
        (r"\begin{align} a &= b \\ c &= d \end{align}", r"\begin{aligned} a&=b\\c&=d \end{aligned}", 1.0),
        (r"f''(x)_i^2", r"f^{\prime\prime}(x)^{2}_{i}", 1.0),
        (r"\bm{x}\cdots y\tag{3}", r"\mathbf x \dots y", 1.0),
        ("若 x", "若 x", 1.0),
        ("a+c", "a+b", 2 / 3),
        (BIG.replace("3", "5"), BIG, 24 / 25),
        (r"\frac{a}{", "a", 0.0),
        (r"a \undefined", "a", 0.0),
        (r"\begin{array}{c} a", "a", 0.0),
        ("", "a", 0.0),
        ("a", r"\undefined", None),
    ],
)
def test_formulas_as_they_are_rendered(found, wanted, score):
    assert cdm_score(found, wanted, time_limit_s=60) == (None if score is None else pytest.approx(score))


@tex
def test_a_formula_with_an_error_spoils_no_other_of_the_page():
    page = ["a+b", r"\undefined", "c^2", r"\left( x", r"\frac{1}{2}"]
    tokens = {latex: drawn and drawn.tokens for latex, drawn in rendered(page, time_limit_s=60).items()}
    half = ("\\frac", "1", "2")
    assert list(tokens.values()) == [("a", "+", "b"), None, ("c", "2"), None, half] and list(tokens) == page


def page_blocks():
    return load_module(shipped_dir("rewards") / "page_blocks.py")


@tex
def test_a_page_has_the_mean_of_its_formulas():
    blocks = [
        {"kind": "formula", "text": f"$$ {latex} $$", "order": n} for n, latex in enumerate(("A+b", "x^2 = 4", "q"))
    ]
    sample = Sample("a.jpg", task="page", modality="ocr", messages=(), answer=blocks)
    found = page_blocks().score("\\[ A+b \\]\n\n\\[ x^{2} = 5 \\]", sample, cdm=True, time_limit_s=60)
    # All of the first, 3 of 4 tokens of the second, nothing of the third; by their sources a and A are the same.
    assert found["cdm"] == pytest.approx((1 + 3 / 4 + 0) / 3)
    assert "cdm" not in page_blocks().score("\\[ A+b \\]", sample)


def test_without_pdflatex_it_is_an_error_at_the_start(monkeypatch):
    monkeypatch.setenv("PATH", "")
    options = {"cdm": True, "time_limit_s": 8.0, "allow_weak_sandbox": True}
    with pytest.raises(ConfigError, match=r"page_blocks with cdm: true needs pdflatex.*apt-get install texlive"):
        page_blocks().preflight(options, 60.0)
    page_blocks().preflight({**options, "cdm": False}, 1.0)
