"""CDM: two formulas compared by the places of their tokens where they are rendered (character detection matching).

Both are rendered by pdfTeX, every token in a colour of its own; the boxes of the tokens are paired at the least cost
(token 1, or 0.005 where only the spelling differs; 0.05 of place; 0.15 of order), pairs that no shift and scale bring
together are no matches, and the score is F1 = 2 matches / (tokens + tokens).
Source: UniMERNet at 5a2c80d, cdm/. Its tokens are KaTeX's, and it renders with smooth edges; here tokens are read from
the source, and edges are sharp, so that thin ones have a box too.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2
from scipy.optimize import linear_sum_assignment

from mmrl.errors import RewardError
from mmrl.scoring.coloured_formula import MACRO, MOST_TOKENS, Coloured, colour_of, coloured, plain_tokens
from mmrl.scoring.sandbox import Result
from mmrl.scoring.tex_engine import compile_document

_DPI, _PAD = 200, 8
_SPELLING, _PLACE, _ORDER = 0.005, 0.05, 0.15
_ROUNDS, _TRIALS, _SAMPLE, _FAR = 5, 50, 2, 20.0  # pixels
_BEFORE = (
    r"""\documentclass[12pt]{article}
\usepackage[landscape]{geometry}\geometry{%s,scale=0.98}\pagestyle{empty}
\usepackage{booktabs}\usepackage{amsmath}\usepackage{amssymb}
\IfFileExists{upgreek.sty}{\usepackage{upgreek}}{}\providecommand{\mathscr}{\mathcal}
"""
    + MACRO.replace("%", "%%")
    + "\n\\begin{document}\n"
)
_PAPER = ((600, "a5paper"), (MOST_TOKENS, "a4paper"))
_MARK, _MOST_KEPT = "mmrl formula ", 1024


@dataclass(frozen=True, slots=True, eq=False)
class Rendered:
    """tokens: of N boxes. boxes_N4: x1, y1, x2, y2 in pixels of the cropped picture. size: its width and height."""

    tokens: tuple[str, ...]
    boxes_N4: np.ndarray
    size: tuple[int, int]


_kept: OrderedDict[str, Rendered | None] = OrderedDict()


def cdm_score(found: str, wanted: str, *, time_limit_s: float = 8.0) -> float | None:
    """F1 of 0 to 1; 0 where the found one is no LaTeX; None where the wanted one is none, or shows nothing."""
    drawn = rendered([found, wanted], time_limit_s=time_limit_s)
    return similarity(drawn[found], drawn[wanted])


def similarity(said: Rendered | None, gold: Rendered | None) -> float | None:
    """The same of formulas that are rendered."""
    if gold is None:
        return None
    return 0.0 if said is None else matched_share(said, gold)


def rendered(formulas: Iterable[str], *, time_limit_s: float = 8.0) -> dict[str, Rendered | None]:
    """By formula; None for what does not compile or shows nothing. RewardError where that takes longer in all."""
    wanted = list(dict.fromkeys(formulas))
    found = {latex: _kept[latex] for latex in wanted if latex in _kept}
    by_paper: dict[str, list[tuple[str, Coloured]]] = defaultdict(list)
    for latex in wanted:
        if latex not in found:
            try:
                formula = coloured(latex)
            except ValueError:
                found[latex] = None
                continue
            by_paper[next(paper for most, paper in _PAPER if len(formula.tokens) <= most)].append((latex, formula))
    ends = time.monotonic() + time_limit_s
    for paper, of_paper in by_paper.items():
        for (latex, _), drawn in zip(of_paper, _drawn([of for _, of in of_paper], paper, ends), strict=True):
            found[latex] = drawn
    _kept.update(found)
    for latex in wanted:
        _kept.move_to_end(latex)
    while len(_kept) > _MOST_KEPT:
        _kept.popitem(last=False)
    return {latex: found[latex] for latex in wanted}


def _drawn(formulas: Sequence[Coloured], paper: str, ends: float) -> list[Rendered | None]:
    """A first run tells which formulas have errors, a second one has the others alone."""
    wrong = _with_errors(formulas, paper, ends) if len(formulas) > 1 else set()
    right = [place for place in range(len(formulas)) if place not in wrong]
    drawn = dict(zip(right, _halved([formulas[place] for place in right], paper, ends), strict=True))
    return [drawn.get(place) for place in range(len(formulas))]


def _halved(formulas: Sequence[Coloured], paper: str, ends: float) -> list[Rendered | None]:
    """All in one run; where one of them stops it, each half for itself."""
    if not formulas:
        return []
    result = _compiled(formulas, paper, ends, go_on=False)
    pdf = result.files.get("page.pdf")
    if result.ok and pdf:
        with pypdfium2.PdfDocument(pdf) as document:
            if len(document) == len(formulas):
                return [_boxes(document[page], formula) for page, formula in enumerate(formulas)]
    if len(formulas) == 1:
        return [None]
    middle = len(formulas) // 2
    return _halved(formulas[:middle], paper, ends) + _halved(formulas[middle:], paper, ends)


def _with_errors(formulas: Sequence[Coloured], paper: str, ends: float) -> set[int]:
    log = _compiled(formulas, paper, ends, go_on=True).files.get("page.log", b"").decode("utf-8", "replace")
    behind = re.split(rf"^{_MARK}(\d+)$", log, flags=re.MULTILINE)
    pairs = zip(behind[1::2], behind[2::2], strict=True)
    return {int(number) for number, said in pairs if re.search(r"^! ", said, re.MULTILINE)}


def _compiled(formulas: Sequence[Coloured], paper: str, ends: float, *, go_on: bool) -> Result:
    left = ends - time.monotonic()
    pages = [
        f"\\typeout{{{_MARK}{n}}}\n\\begin{{displaymath}}\n{of.source}\n\\end{{displaymath}}\n\\newpage\n"
        for n, of in enumerate(formulas)
    ]
    document = _BEFORE % paper + "".join(pages) + "\\end{document}\n"
    result = compile_document(document, time_limit_s=left, go_on=go_on) if left > 0 else None
    if result is None or result.killed_by is not None:
        raise RewardError("pdfTeX did not render a page's formulas in time; raise the option time_limit_s")
    return result


def _boxes(page: pypdfium2.PdfPage, formula: Coloured) -> Rendered | None:
    scale: Any = _DPI / 72  # annotated as a whole number there
    bitmap = page.render(scale=scale, no_smoothtext=True, no_smoothpath=True)
    picture = bitmap.to_numpy()[..., 2::-1].astype(int)
    codes_HW = (picture * np.array([65536, 256, 1])).sum(axis=-1)
    rows, columns = np.nonzero(codes_HW != 0xFFFFFF)
    if not len(rows):
        return None
    top, left = rows.min() - _PAD, columns.min() - _PAD
    codes = codes_HW[rows, columns]
    tokens, boxes = [], []
    for number, token in enumerate(formula.tokens):
        red, green, blue = colour_of(number)
        here = codes == red * 65536 + green * 256 + blue
        if here.any():
            x, y = columns[here] - left, rows[here] - top
            tokens.append(token)
            boxes.append((x.min() - 1, y.min() - 1, x.max() + 1, y.max() + 1))
    size = (int(columns.max() - left + _PAD), int(rows.max() - top + _PAD))
    return Rendered(tuple(tokens), np.array(boxes, dtype=float), size) if boxes else None


def matched_share(said: Rendered, gold: Rendered) -> float:
    """F1 of tokens that are the same at the same place."""
    wrong_MN = _token_cost(gold.tokens, said.tokens)
    places = [of.boxes_N4 / np.array([*of.size, *of.size]) for of in (gold, said)]
    longest = max(len(gold.tokens), len(said.tokens))
    orders = [np.arange(len(of.tokens))[:, None] / longest for of in (gold, said)]
    cost_MN = wrong_MN + _PLACE * _mean_distance(*places) + _ORDER * _mean_distance(*orders)
    m, n = linear_sum_assignment(cost_MN)
    centres = [(of.boxes_N4[:, :2] + of.boxes_N4[:, 2:]) / 2 for of in (gold, said)]
    together = _inliers(centres[0][m], centres[1][n]) & (wrong_MN[m, n] < 1)
    return 2 * int(together.sum()) / (len(gold.tokens) + len(said.tokens))


def _token_cost(gold: Sequence[str], said: Sequence[str]) -> np.ndarray:
    same = np.array([[a == b for b in said] for a in gold])
    alike = np.array([[a == b for b in plain_tokens(said)] for a in plain_tokens(gold)])
    return np.where(same, 0.0, np.where(alike, _SPELLING, 1.0))


def _mean_distance(a_MK: np.ndarray, b_NK: np.ndarray) -> np.ndarray:
    return np.abs(a_MK[:, None] - b_NK[None]).mean(axis=-1)


def _inliers(gold_P2: np.ndarray, said_P2: np.ndarray) -> np.ndarray:
    """Pairs that shifts and scales bring together: the most that one does, then of the rest, up to five times."""
    kept_P = np.zeros(len(gold_P2), dtype=bool)
    if len(gold_P2) <= _SAMPLE:
        return ~kept_P
    draws = np.random.default_rng(42)
    for _ in range(_ROUNDS):
        left = np.flatnonzero(~kept_P)
        if len(left) <= _SAMPLE:
            break
        found = _largest_agreement(gold_P2[left], said_P2[left], draws)
        if not found.any():
            break
        kept_P[left[found]] = True
    return kept_P


def _largest_agreement(gold_P2: np.ndarray, said_P2: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    """RANSAC: of 50 pairs of pairs the one whose shift and scale leaves the most within 20 pixels."""
    best, least = np.zeros(len(gold_P2), dtype=bool), np.inf
    for _ in range(_TRIALS):
        pair = draws.choice(len(gold_P2), _SAMPLE, replace=False)
        apart = _distances(gold_P2, said_P2, pair)
        near = apart < _FAR
        if (near.sum(), least) > (best.sum(), float(apart @ apart)):
            best, least = near, float(apart @ apart)
    return best


def _distances(gold_P2: np.ndarray, said_P2: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Of all, where the two of `pair` say shift and scale; the scale is about the middle of all, as in the source."""
    centres = gold_P2[pair].mean(axis=0), said_P2[pair].mean(axis=0)
    spreads = [
        np.linalg.norm(of - centre, axis=1).mean()
        for of, centre in zip((gold_P2[pair], said_P2[pair]), centres, strict=True)
    ]
    scale, middle = spreads[1] / (spreads[0] + 1e-10), gold_P2.mean(axis=0)
    moved_P2 = scale * (gold_P2 - middle) + middle + centres[1] - centres[0]
    return np.linalg.norm(moved_P2 - said_P2, axis=1)
