"""LaTeX pages: what stands in their source, TexOCR's tests on them, and formulas by KaTeX."""

import time
from importlib.util import find_spec

import pytest

from mmrl.errors import ConfigError
from mmrl.scoring import katex, texocr
from mmrl.scoring.latex_source import Source, formula_tokens, numbers, plain_sentences, strip_comments
from mmrl.scoring.reward import check_machine, resolve_reward
from mmrl.scoring.texocr import Reference, page_values, passed_share, static_probe
from mmrl.scoring.text_distance import similarity

HUGE = 500_000


def test_what_stands_in_a_page():
    source = Source(
        r"""\section{1 Intro} % \section{hidden}
        \subsection*{A {\bf bold} title} \cite[see][p. 2]{a, b} \citep{c} \eqref{eq:1} \cref{x,y} \label{eq:1}
        \[ a \] $$b$$ \begin{align*} c \end{align*} \begin{tabular}{l} 1 & 2,000.5 \end{tabular} \$5 and 3\% of it
        """
    )
    assert source.titles() == ["intro", r"a {\bf bold} title"]
    assert source.citations() == ["a", "b", "c"] and source.references() == ["eq:1", "x", "y"]
    assert source.labels() == ["eq:1"] and [f.strip() for f in source.formulas()] == ["a", "b", "c"]
    assert numbers(source.longest_table() or "") == ["1", "2,000.5"]
    assert source.braces_balance and source.environments_nest and source.dollars_pair()


def test_bibtex_entries():
    source = Source("@article{a, title={The {A}}}\nBody @ home.\n@book{b,\n title={B}}\n\\bibitem{c} C")
    assert source.bibliography() == ["a", "b", "c"]
    assert source.without_bibtex().split() == ["Body", "@", "home.", "\\bibitem{c}", "C"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [("{", "braces"), ("}", "braces"), (r"\begin{a}", "environments"), (r"\end{a}", "environments"), ("$", "dollars")],
)
def test_the_probe_finds_what_is_open(text, fault):
    source = Source("a " + text)
    sound = {
        "braces": source.braces_balance,
        "environments": source.environments_nest,
        "dollars": source.dollars_pair(),
    }
    assert [name for name, holds in sound.items() if not holds] == [fault]
    assert not static_probe(source, Reference.of("a"))


def test_the_probe_wants_references_to_resolve():
    page = Reference.of(r"\label{a} \cite{k} text")
    assert static_probe(Source(r"\ref{a} \cite{k}"), page)
    assert not static_probe(Source(r"\ref{b}"), page) and not static_probe(Source(r"\cite{z}"), page)
    assert static_probe(Source(r"\cite{2}"), Reference.of("text", bib_entries=2))
    assert not static_probe(Source(r"\cite{3}"), Reference.of("text", bib_entries=2))


def test_worked_numbers_of_texocr():
    values = {name: float(i < 7) for i, name in enumerate(texocr.THRESHOLDS)}
    assert passed_share(values, texocr.THRESHOLDS) == pytest.approx(7 / 9)
    found, gold = r"\section{Intro} We show $x^2$.", r"\section{Intro} We show $x^3$."
    assert similarity(found, gold) == pytest.approx(0.9667, abs=1e-4)
    page = Reference.of(r"\ref{fig1} \ref{fig1} \ref{tab1}")
    assert page_values(r"\ref{fig1} \ref{fig1}", page)["references"] == 0.5


def test_formulas_align_and_parts_count_only_when_they_are_large():
    gold = [r"a + b", r"\frac{x}{y} + z"]
    assert texocr.formula_accuracy([r"\frac{x}{y} + z", r"\left( a+b \right)"], gold) == 0.5
    assert texocr.formula_accuracy([r"\frac{x}{y}+z", "a+b"], gold) == 1.0
    assert texocr.formula_accuracy(["a"], gold) == 0.0
    assert texocr.formula_accuracy(["a"], gold, part=0.0) == 0.5
    assert texocr.formula_accuracy(["a+b"], []) is None and texocr.formula_accuracy([], gold) == 0.0


def test_tables_by_their_numbers():
    gold = "1 & 2 & 3 & 4 & 5 & 6 & 7 & 8 & 9 & 10"
    assert texocr.table_match("1 2 3 4 5 6 7 8 9 11", gold) == 1.0
    assert texocr.table_match("1 2 3 4 5 6 7 8", gold) == 0.0
    assert texocr.table_match(" ".join(map(str, range(1, 200))), gold) == 0.0
    assert texocr.table_match("1 2 3 4 5 6 7 8", gold, {**texocr.LIMITS, "table": 0.8}) == 1.0
    assert texocr.table_match("1 2 3 4 5 6 7 8", gold, {**texocr.LIMITS, "unique": 0.8}) == 1.0
    # 9 of 10, beside 5 others: 9 / 14 agree, and 0.9 of those that occur once are there.
    assert texocr.table_match("1 2 3 4 5 6 7 8 9 20 21 22 23 24", gold) == 1.0
    assert (
        texocr.table_match("1 2 3 4 5 6 7 8 9 20 21 22 23 24", gold, {**texocr.LIMITS, "table_if_unique": 0.7}) == 0.0
    )
    assert texocr.table_match(None, gold) == 0.0 and texocr.table_match("1", "a & b") is None


def test_titles_pair_one_to_one():
    assert texocr.title_accuracy(["introduction to it", "method"], ["method", "introduction"]) == 1.0
    assert texocr.title_accuracy(["method", "method"], ["method", "results"]) == 0.5
    assert texocr.title_accuracy(["a"], ["a long title of many words"]) == 0.0
    assert texocr.title_accuracy(["a"], ["a long title of many words"], part=0.0) == 1.0


def test_limits_are_the_options_of_both_rewards():
    assert texocr.limits_of(None, official=False) == texocr.LIMITS
    assert texocr.limits_of({"unique": 1.0}, official=True) == {
        **texocr.LIMITS,
        "formula_part": 0.0,
        "title_part": 0.0,
        "unique": 1.0,
    }
    reference = Reference.of("\\section{A title} \\[a + b\\]")
    text = "\\section{title} \\[a +\\]"
    assert [page_values(text, reference)[name] for name in ("formulas", "sections")] == [0.0, 1.0]
    strict = texocr.limits_of({"formula_part": 0.5, "title_part": 0.8}, official=False)
    assert [page_values(text, reference, strict)[name] for name in ("formulas", "sections")] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thresholds": {"txt": 0.5}}, r"thresholds\.txt belongs to no test; did you mean 'text'"),
        ({"thresholds": {"text": 1.5}}, r"thresholds\.text is 1\.5, not a number from 0 to 1"),
        ({"limits": {"formula_parts": 0.5}}, r"limits\.formula_parts belongs to no test; did you mean 'formula_part'"),
        ({"limits": {"unique": True}}, r"limits\.unique is True, not a number from 0 to 1"),
    ],
)
def test_thresholds_that_mean_nothing_do_not_start(options, message):
    with pytest.raises(ConfigError, match=message):
        check_machine(resolve_reward("latex_static"), options, timeout_s=30.0, where="a")


def test_sentences_that_are_anchors():
    text = "\\section{A}\nThis sentence has five words. Short one.\nWith $x$ it is not plain text.\n\n"
    text += "Another sentence of five words."
    assert plain_sentences(text) == ["This sentence has five words.", "Another sentence of five words."]


@pytest.mark.parametrize(
    "text", ["{" * HUGE, "\\" * HUGE, "%" * HUGE, "\\section{" * 50_000, "$$" * HUGE, "\\cite[" * 80_000]
)
def test_long_pages_take_no_time(text):
    began = time.monotonic()
    page_values(text, Reference.of("A page with some words in it. \\[x\\] \\section{a}\\cite{b}\\ref{c}"))
    assert time.monotonic() - began < 6.0


def test_comments_and_tokens():
    assert strip_comments("a\\\\% b\nc\\% d") == "a\\\\\nc\\% d"
    assert formula_tokens(r"\leftarrow \left. x \right)") == ("\\leftarrow", "x", ")")


needs_katex = pytest.mark.skipif(find_spec("quickjs") is None, reason="needs the extra mmrl[latex]")


@needs_katex
@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        (r"x^{2}", "x^2", True),
        (r"\frac ab", r"\frac{a}{b}", True),
        (r"{x}+{y}", "x + y", True),
        (r"\begin{aligned}a&=b\end{aligned}", r"\begin{aligned} a &= b \end{aligned}", True),
        (r"a\,b", "ab", False),
        (r"x_2", "x^2", False),
        (r"\unknown", r"\unknown", True),
        (r"\unknown", "x", False),
    ],
)
def test_formulas_by_katex(found, wanted, same):
    assert katex.same_formula(found, wanted) is same


@needs_katex
@pytest.mark.parametrize(
    "latex",
    [
        r"\def\a{\b\b}\def\b{\a\a}\a",
        "{" * 19_000,
        r"\sqrt{" * 3000 + "}" * 3000,
        r"\includegraphics{/etc/passwd}",
        "x" * 30_000,
        "\0",
    ],
)
def test_katex_refuses_what_has_no_end_in_time(latex):
    began = time.monotonic()
    katex.mathml(latex)
    assert time.monotonic() - began < 5.0
    assert katex.mathml("x") is not None
