"""Formulas compared by what is drawn: two rules on symbols with places, and both on what a browser lays out."""

import time
from dataclasses import replace
from importlib.util import find_spec

import pytest

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, RewardError
from mmrl.scoring import browser, formula_layout
from mmrl.scoring.formula_layout import laid_out_alike
from mmrl.scoring.katex import mathml, same_formula
from mmrl.scoring.reward import check_machine, resolve_reward
from mmrl.scoring.symbol_layout import Symbol, drawn_alike, holds

needs_katex = pytest.mark.skipif(find_spec("quickjs") is None, reason="needs the extra mmrl[latex]")
needs_layout = pytest.mark.skipif(
    find_spec("quickjs") is None or browser.program() is None or not formula_layout.STYLE.is_file(),
    reason="needs the extra mmrl[latex], Chromium and libjs-katex",
)
LIMIT = 60.0


def row(text, *, gap=20.0, y=0.0):
    """Characters side by side."""
    return tuple(Symbol(sign, "main", 29, gap * i, y, 10.0) for i, sign in enumerate(text))


def line(x, width, y=-20.0):
    return Symbol("line Bottom", "", 29, x, y, width, is_mark=True)


RAISED = Symbol("2", "main", 29, 20.0, -12.0, 10.0)


@pytest.mark.parametrize(
    ("found", "wanted", "alike", "held"),
    [
        (row("ab"), row("ab"), True, True),
        (row("ab", gap=90.0), row("ab"), True, True),
        (row("ba"), row("ab"), False, False),
        (row("abc"), row("ab"), False, True),
        (row("ab"), row("abc"), False, False),
        (row("acb"), row("ab"), False, False),
        (row("ab", y=4.9), row("ab"), True, True),
        (row("ab", y=50.0), row("ab"), True, True),
        ((*row("x"), replace(RAISED, y=-7.1)), (*row("x"), RAISED), True, True),
        ((*row("x"), replace(RAISED, y=-6.9)), (*row("x"), RAISED), False, True),
        ((replace(RAISED, size=20),), (replace(RAISED, size=20, y=9.0),), False, True),
        ((*row("x"), RAISED), (*row("x"), Symbol("2", "main", 29, 20.0, 12.0, 10.0)), False, True),
        ((*row("x"), RAISED), (*row("x"), Symbol("2", "main", 20, 20.0, -12.0, 10.0)), False, True),
        ((*row("ab"), line(0, 18)), (*row("ab"), line(0, 18)), True, True),
        ((*row("ab"), line(0, 18)), (*row("ab"), line(10, 50)), False, True),
        ((*row("ab"), line(0, 18)), row("ab"), False, True),
        ((*row("ab"), Symbol("c", "main", 29, 40.0, 0.0, 10.0, is_hidden=True)), row("ab"), True, True),
        (row("ab"), (*row("ab"), Symbol("c", "main", 29, 40.0, 0.0, 10.0, is_hidden=True)), True, False),
        (row("abcab"), row("ab"), False, True),
        (row("aab"), row("ab"), False, True),
        ((), (), False, False),
    ],
)
def test_rules_of_likeness(found, wanted, alike, held):
    assert (drawn_alike(found, wanted), holds(found, wanted)) == (alike, held)


def test_partners_are_looked_for_until_all_fit():
    """The first a has no b beside it and the second has; of two equal ones each gets its own."""
    apart = (*row("a", y=100.0), *row("ab"))
    assert holds(apart, row("ab")) and not holds(row("ab"), (*row("ab"), *row("a", y=100.0)))
    two = (*row("ab"), *row("ab", y=100.0))
    assert holds(two, two) and not holds(row("abab"), two[:3])


def test_a_search_without_end_is_ended():
    scattered = tuple(Symbol("a", "main", 29, 50.0 * i, 50.0 * i, 10.0) for i in range(200))
    began = time.monotonic()
    assert not holds(scattered, (*scattered[:-1], Symbol("a", "main", 29, 0.0, 20.0, 10.0), *row("ba", y=-300.0)))
    assert not holds((*scattered, *row("b")), (*scattered, Symbol("b", "", 29, 50.0 * 200, 50.0 * 199, 10.0)))
    assert time.monotonic() - began < LIMIT


ALIKE = [
    (r"a\,+\;b", "a+b"),
    (r"\frac{a}{b}\quad c", r"\dfrac ab c"),
    (r"\operatorname{sin}x", r"\sin x"),
    (r"\text{if}\ x", r"\mathrm{if}\ x"),
    (r"\left(x\right)", "(x)"),
    (r"\begin{align*}a+b&=\sum_{i\neq j}c_i\end{align*}", r"a+b=\sum_{i\neq j}c_i"),
    (r"\left\{(0_{X},0_{Y})\right\}", r"\{ (0_X, 0_Y) \}"),
    (r"a\not=b", r"a\neq b"),
    (r"a\phantom{b}c", r"a\ c"),
]
ONLY_OFFICIAL = [
    ("x^2", "x_2"),
    ("^2", "_2"),
    ("x^2y", "xy^2"),
    ("x_{i_j}", "x_{ij}"),
    (r"\sqrt{x}y", r"\sqrt{xy}"),
    (r"\overline{ab}c", r"\overline{abc}"),
    (r"\frac{a}{b}", r"{a \atop b}"),
    (r"\mathbf{x}", "x"),
    (r"\bar{x}", r"\overline{x}"),
    (r"\boxed{x}", "x"),
    (r"\color{red}{a}+b", "a"),
    (r"x\text{</script><script>document.documentElement.textContent='[]'</script>}", "x"),
]
DIFFERENT = [
    ("y+x", "x+y"),
    ("a", "a+b"),
    (r"\frac{a}{b}", r"\frac{b}{a}"),
    (r"\frac{ab}{c}", r"\frac{a}{bc}"),
    (r"\begin{pmatrix}a&b\\c&d\end{pmatrix}", r"\begin{pmatrix}a&c\\b&d\end{pmatrix}"),
    (r"\begin{matrix}a& \\ &b\end{matrix}", r"\begin{matrix}a\\b\end{matrix}"),
    (r"x^{2^n}", "x^{2n}"),
    (r"\hat{ab}", r"a\hat{b}"),
    (r"a\times b", r"a\cdot b"),
    (r"\alpha^2", "a^2"),
    (r"\frac{a}{", "a"),
    (r"\href{http://127.0.0.1:1/}{x}", "x"),
    (r"\includegraphics{/etc/passwd}", "x"),
    (r"\htmlData{a=b}{x}", "x"),
]


@needs_layout
def test_formulas_laid_out_by_a_browser():
    """One call for all pairs."""
    pairs = [*ALIKE, *ONLY_OFFICIAL, *DIFFERENT]
    assert laid_out_alike(pairs, time_limit_s=LIMIT) == set(ALIKE)
    held = laid_out_alike(pairs, official=True, time_limit_s=LIMIT)
    assert held - set(ALIKE) == set(ONLY_OFFICIAL)
    # A phantom is a symbol to olmOCR.
    assert set(ALIKE) - held == {(r"a\phantom{b}c", r"a\ c")}


@needs_katex
def test_mathml_alone_refuses_what_only_looks_alike():
    assert [pair for pair in ALIKE if not same_formula(*pair)] == ALIKE


@needs_layout
def test_accents_over_narrow_letters_stand_where_they_stand():
    assert laid_out_alike([(r"\hat{il}", r"i\hat{l}")], time_limit_s=LIMIT) == set()


@needs_layout
def test_layouts_are_kept(monkeypatch):
    pair = (r"k\,e\,p\,t", "kept")
    assert laid_out_alike([pair], time_limit_s=LIMIT) == {pair}
    monkeypatch.setattr(formula_layout, "page_source", None)
    assert laid_out_alike([pair], time_limit_s=LIMIT) == {pair}


@needs_layout
@pytest.mark.parametrize(
    "latex",
    [
        r"\def\a{\b\b}\def\b{\a\a}\a x",
        r"\sqrt{" * 3000 + "x" + "}" * 3000,
        "{" * 9_000 + "x" + "}" * 9_000,
        "x" + r"\," * 9_000,
        r"\rule{99999em}{99999em}x",
    ],
)
def test_endless_formulas_are_refused_in_time_and_spoil_no_other(latex):
    began = time.monotonic()
    good = (r"x\;", "x")
    assert laid_out_alike([(latex, "x"), good], time_limit_s=LIMIT) == {good}
    assert time.monotonic() - began < LIMIT


@needs_layout
def test_what_one_page_may_cost_is_limited(monkeypatch):
    """The first formulas fit, and the rest is like none."""
    pairs = [(rf"p\,q\,{n}", rf"pq{n}") for n in range(9)]
    monkeypatch.setattr(formula_layout, "_LONGEST_PAGE", sum(len(mathml(formula) or "") for formula in pairs[0]))
    assert laid_out_alike(pairs, time_limit_s=LIMIT) == {pairs[0]}


@needs_layout
def test_a_browser_that_does_not_answer_is_an_error_and_not_a_zero():
    with pytest.raises(RewardError, match=r"Chromium did not lay 2 formulas out within 0\.01 s"):
        laid_out_alike([(r"t\,i\,m\,e", "time")], time_limit_s=0.01)


def score(reward, completion, answer, **options):
    """What a reward gives, as a mapping."""
    result = resolve_reward(reward).function(completion, Sample("s", "t", "image", (), answer=answer), **options)
    return result if isinstance(result, dict) else {"reward": result}


def formula_score(completion, answer, **options):
    return score("formula_match", f"<answer>{completion}</answer>", answer, **options)["reward"]


@needs_layout
def test_rewards_by_layout():
    by_layout, official = {"layout": True, "time_limit_s": LIMIT}, {"official": True, "time_limit_s": LIMIT}
    assert formula_score(r"$a\,+\;b$", "a+b") == 0.0
    assert formula_score(r"$a\,+\;b$", "a+b", **by_layout) == 1.0
    assert formula_score("x_2", "x^2", **by_layout) == 0.0
    assert formula_score("x_2", "x^2", **official) == 1.0
    assert formula_score("x", "x+y", **official) == 0.0


@needs_layout
def test_all_formulas_of_a_page_take_one_call(monkeypatch):
    calls = []
    monkeypatch.setattr(formula_layout, "page_source", lambda *a, **k: calls.append(a) or browser.page_source(*a, **k))
    page = r"First \(u\,+\,v\), then \(\operatorname{cos}u\), last \(w_3\)."
    answer = [{"type": "math", "math": text} for text in ("u+v", r"\cos u", "w^3", "u+w")]
    answer.append({"type": "present", "text": "First and no more than that", "max_diffs": 0})
    results = {
        name: score("page_tests", page, answer, **options)["math"]
        for name, options in {
            "mathml": {},
            "layout": {"layout": True, "time_limit_s": LIMIT},
            "official": {"official": True, "time_limit_s": LIMIT},
        }.items()
    }
    assert results == {"mathml": 0.0, "layout": 0.5, "official": 0.75}
    assert len(calls) == 1


@needs_katex
def test_official_finds_texts_on_pages_shorter_than_themselves():
    answer = [{"type": "present", "text": "eleven"}]
    assert score("page_tests", "e", answer)["reward"] == 0.0
    assert score("page_tests", "e", answer, official=True)["reward"] == 1.0


@needs_layout
@pytest.mark.parametrize("name", ["formula_match", "page_tests"])
def test_a_machine_without_what_layout_needs_does_not_start(name, monkeypatch, tmp_path):
    reward = resolve_reward(name)
    options = {"layout": True, "allow_weak_sandbox": True}
    check_machine(reward, options, timeout_s=30.0, where="a")
    with pytest.raises(ConfigError, match=r"timeout_s"):
        check_machine(reward, options, timeout_s=5.0, where="a")
    with monkeypatch.context() as missing:
        missing.setattr(formula_layout, "STYLE", tmp_path / "katex.css")
        with pytest.raises(ConfigError, match=r"apt-get install libjs-katex"):
            check_machine(reward, {**options, "layout": False, "official": True}, timeout_s=30.0, where="a")
        check_machine(reward, {}, timeout_s=5.0, where="a")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"apt-get install chromium-headless-shell"):
        check_machine(reward, options, timeout_s=30.0, where="a")
