r"""Which edits of a formula each rule of `formula_match` accepts, and what a call of the browser takes.

    python tests/bench/bench_formula_layout.py [--out FILE.md]

Forty formulas are edited one place at a time: edits that change what stands there, which no rule should accept, and
edits that only write it in another way. What KaTeX does not render is left out. Times are the least of five calls.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mmrl.scoring.formula_layout import laid_out_alike
from mmrl.scoring.katex import mathml, same_formula

_LINES = r"""
E=mc^2
\int_0^\infty e^{-x^2}\,dx=\frac{\sqrt{\pi}}{2}
\nabla\times\mathbf{E}=-\frac{\partial\mathbf{B}}{\partial t}
\sum_{n=1}^{\infty}\frac{1}{n^2}=\frac{\pi^2}{6}
\lim_{x\to 0}\frac{\sin x}{x}=1
i\hbar\frac{\partial}{\partial t}\Psi(x,t)=\hat{H}\Psi(x,t)
f(x)=\frac{1}{\sigma\sqrt{2\pi}}e^{-\frac{(x-\mu)^2}{2\sigma^2}}
a^2+b^2=c^2
x=\frac{-b\pm\sqrt{b^2-4ac}}{2a}
\begin{pmatrix}a&b\\c&d\end{pmatrix}\begin{pmatrix}x\\y\end{pmatrix}=\begin{pmatrix}ax+by\\cx+dy\end{pmatrix}
P(A|B)=\frac{P(B|A)P(A)}{P(B)}
\binom{n}{k}=\frac{n!}{k!(n-k)!}
\Gamma(z)=\int_0^\infty t^{z-1}e^{-t}\,dt
R_{\mu\nu}-\frac{1}{2}Rg_{\mu\nu}=\frac{8\pi G}{c^4}T_{\mu\nu}
\|x\|_p=\left(\sum_{i=1}^n|x_i|^p\right)^{1/p}
y_t=\alpha+\beta x_t+\epsilon_t
\mathcal{L}(\theta)=\sum_{i=1}^N\log p_\theta(y_i|x_i)
\bar{x}=\frac{1}{n}\sum_{i=1}^n x_i
f'(x)=\lim_{h\to 0}\frac{f(x+h)-f(x)}{h}
A\subseteq B\iff\forall x(x\in A\to x\in B)
\hat{\beta}=(X^TX)^{-1}X^Ty
\overline{z_1z_2}=\bar{z}_1\bar{z}_2
\int_{a}^{b}f(x)\,dx=F(b)-F(a)
e^{i\pi}+1=0
\zeta(s)=\prod_p\frac{1}{1-p^{-s}}
x_{n+1}=x_n-\frac{f(x_n)}{f'(x_n)}
\det(A-\lambda I)=0
V=\frac{4}{3}\pi r^3
F_{ij}=\partial_iA_j-\partial_jA_i
\operatorname{Var}(X)=E[X^2]-E[X]^2
\mathrm{CO}_2+\mathrm{H}_2\mathrm{O}\to\mathrm{H}_2\mathrm{CO}_3
\sqrt[3]{a+b}\leq\sqrt[3]{a}+\sqrt[3]{b}
\vec{F}=m\vec{a}
\frac{d^2y}{dx^2}+\omega^2y=0
u(x,t)=\sum_{k}c_k\sin(kx)e^{-k^2t}
\left|\frac{a_{n+1}}{a_n}\right|<1
S=\{x\in\mathbb{R}:x^2<2\}
T(n)=2T(n/2)+O(n)
q_{a}^{b}=\sum_{j\neq i}w_{ij}^{(l)}
\underbrace{a+b}_{c}=\widehat{xyz}
"""
FORMULAS = _LINES.strip().splitlines()
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\s+|.")
_SIGN = re.compile(r"[A-Za-z0-9+=<|/]")
_MARKS = (r"\sqrt", r"\mathbf", r"\bar", r"\overline", r"\hat", r"\vec", r"\mathcal", r"\mathbb", r"\widehat")
_CHUNK = 40
Edits = Iterator[tuple[str, str]]


def changing(formula: str, rng: random.Random) -> Edits:
    """Edits after which something else stands there, by kind."""
    tokens = _TOKEN.findall(formula)
    for i, token in enumerate(tokens):
        before, after = "".join(tokens[:i]), "".join(tokens[i + 1 :])
        if token in "^_":
            yield "script up or down", before + {"^": "_", "_": "^"}[token] + after
        if token in _MARKS:
            yield "font or mark lost", before + after
        if _SIGN.fullmatch(token):
            yield "sign lost", before + after
            yield "sign changed", before + rng.choice("abcxyznkpq123456".replace(token, "")) + after
            yield "sign added", before + token + rng.choice("abcxyz") + after
            if after and _SIGN.match(after[0]) and after[0] != token:
                yield "signs swapped", before + after[0] + token + after[1:]
    for pattern, kind, new in (
        (r"([\^_])\{([^{}\\])([^{}]+)\}", "script or root cut", r"\1{\2}\3"),
        (r"\\(sqrt|overline)\{([^{}\\])([^{}]+)\}", "script or root cut", r"\\\1{\2}\3"),
        (r"\\frac\{([^{}]*)\}\{([^{}]*)\}", "fraction upside down", r"\\frac{\2}{\1}"),
    ):
        for found in re.finditer(pattern, formula):
            yield kind, formula[: found.start()] + found.expand(new) + formula[found.end() :]


def harmless(formula: str, rng: random.Random) -> Edits:
    """Edits that write the same in another way."""
    for found in re.finditer(r"[=+<]", formula):
        yield "space before a sign", formula[: found.start()] + r"\," + formula[found.start() :]
    yield "space at the end", formula + r"\quad"
    yield r"\displaystyle", r"\displaystyle " + formula
    yield "braces", re.sub(r"([_^])([A-Za-z0-9])", r"\1{\2}", formula)
    yield r"\text for \mathrm", formula.replace(r"\mathrm{", r"\text{")
    yield r"\operatorname", re.sub(r"\\(sin|log|det)\b", r"\\operatorname{\1}", formula)
    if "&" not in formula:
        yield "align*", r"\begin{align*}" + formula.replace("=", "&=", 1) + r"\end{align*}"
    if r"\left" not in formula:
        yield r"\left( \right)", formula.replace("(", r"\left(").replace(")", r"\right)")


def counts(edits: Callable[[str, random.Random], Edits]) -> list[str]:
    """A row of the table for each kind of edit, and one for all."""
    rng, kinds = random.Random(0), {}
    for formula in FORMULAS:
        for kind, edited in edits(formula, rng):
            if edited != formula and mathml(edited) is not None:
                kinds[edited, formula] = kind
    alike, held = set(), set()
    for start in range(0, len(kinds), _CHUNK):
        pairs = list(kinds)[start : start + _CHUNK]
        alike |= laid_out_alike(pairs, time_limit_s=60)
        held |= laid_out_alike(pairs, official=True, time_limit_s=60)
    lines = []
    for wanted in (*dict.fromkeys(kinds.values()), "all"):
        pairs = [pair for pair, kind in kinds.items() if wanted in (kind, "all")]
        by_mathml = {pair for pair in pairs if same_formula(*pair)}
        parts = {pair for pair in pairs if same_formula(*pair, contains=True)}
        taken = (len(by_mathml), len(by_mathml | alike & set(pairs)), len(parts | held & set(pairs)))
        lines.append(f"| {wanted} | {len(pairs)} | {' | '.join(map(str, taken))} |")
    return lines


def seconds(pairs: int) -> float:
    """Of one call that lays out so many pairs, none of them known yet."""
    times = []
    for turn in range(5):
        texts = [(rf"x_{{{turn}{n}{pairs}}}\,+y", f"x_{{{turn}{n}{pairs}}}+y") for n in range(pairs)]
        assert not any(same_formula(*pair) for pair in texts)
        began = time.perf_counter()
        assert len(laid_out_alike(texts, time_limit_s=60)) == pairs
        times.append(time.perf_counter() - began)
    return min(times)


def table() -> str:
    head = ["| edit | formulas | MathML (default) | `layout` | `official` |", "|---|---|---|---|---|"]
    timed = [f"| {pairs} | {seconds(pairs):.2f} |" for pairs in (1, 40)]
    return "\n".join(
        [
            *("Edits that change the formula", "", *head, *counts(changing), ""),
            *("Edits that do not", "", *head, *counts(harmless), ""),
            *("| pairs of formulas in a call | seconds |", "|---|---|", *timed),
        ]
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(argv)
    text = table()
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
