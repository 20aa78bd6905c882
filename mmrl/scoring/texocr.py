"""TexOCR's nine tests of a transcribed page. Pure, but for compiling, which the caller does.

Each test is a value from 0 to 1, or None where the reference page has nothing to test, and passes from a threshold on.
The paper gives the tests and not their thresholds, which are ours.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.code_blocks import extract_code
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.latex_source import Source, formula_tokens, numbers, plain_sentences
from mmrl.scoring.matching import hungarian_pairs
from mmrl.scoring.page_tests import Baseline, Page
from mmrl.scoring.text_distance import similarity

THRESHOLDS = {
    "text": 0.9,
    "formulas": 0.9,
    "table": 1.0,
    "sections": 0.9,
    "citations": 0.9,
    "references": 1.0,
    "similarity": 0.9,
    "baseline": 1.0,
    "compiles": 1.0,
}
_MOST = 300
_HIGH, _MODERATE, _UNIQUE = 0.9, 0.6, 0.9


@dataclass(frozen=True, slots=True)
class Reference:
    """The page as it is. anchors: sentences it must hold. bib_entries: entries of the document's bibliography."""

    source: Source
    text: str
    anchors: tuple[str, ...]
    bib_entries: int | None = None

    @classmethod
    def of(cls, text: str, *, anchors: Sequence[str] | None = None, bib_entries: int | None = None) -> Reference:
        """anchors: None takes the plain sentences of the page."""
        found = plain_sentences(text) if anchors is None else list(anchors)
        return cls(Source(text), text, tuple(" ".join(a.split()) for a in found), bib_entries)


def reference_of(sample: Sample) -> Reference:
    """The row's page: its answer, with the columns `anchors` and `bib_entries`. RewardError for anything else."""
    anchors, entries = sample.columns.get("anchors"), sample.columns.get("bib_entries")
    if not isinstance(sample.answer, str) or not sample.answer.strip():
        raise bad_answer(sample, wanted="a page of LaTeX")
    if anchors is not None and not (
        isinstance(anchors, list) and all(isinstance(a, str) and a.strip() for a in anchors)
    ):
        raise RewardError(f"{sample.where}: the column anchors must be a list of texts")
    if entries is not None and (not isinstance(entries, int) or isinstance(entries, bool)):
        raise RewardError(f"{sample.where}: the column bib_entries must be a whole number")
    return _reference(sample.answer, None if anchors is None else tuple(anchors), entries)


@functools.lru_cache(maxsize=16)
def _reference(text: str, anchors: tuple[str, ...] | None, entries: int | None) -> Reference:
    """Kept, since all completions of a sample are compared with one page."""
    return Reference.of(text, anchors=anchors, bib_entries=entries)


def page_of(completion: str) -> str:
    """The page in a completion: a fenced LaTeX block, `<answer>` tags, or all that follows the thought."""
    page = extract_code(completion, languages=("latex", "tex", "bibtex"))
    if page is not None:
        return page
    rest = completion.rpartition("</think>")[2]
    return "" if "<think>" in rest or "<answer>" in rest else rest


def page_values(text: str, reference: Reference, *, official: bool = False) -> dict[str, float | None]:
    """The value of every test but `compiles`.

    official: an ordered part of a formula or title counts however short it is, as in the paper; by default it must
    have 0.8 of a formula's tokens and half of a title's characters.
    """
    page = Source(text)
    gold = reference.source
    flat = " ".join(page.text.split())
    return {
        "text": _share(sum(a in flat for a in reference.anchors), len(reference.anchors)),
        "formulas": formula_accuracy(page.formulas(), gold.formulas(), official=official),
        "table": table_match(page.longest_table(), gold.longest_table()),
        "sections": title_accuracy(page.titles(), gold.titles(), official=official),
        "citations": citation_share(page, reference),
        "references": reference_share(page.references(), gold.references()),
        "similarity": similarity(" ".join(text.split()), " ".join(reference.text.split())),
        "baseline": float(Baseline().passes(Page(text), same_formula=str.__eq__)),
    }


def passed_share(values: Mapping[str, float | None], thresholds: Mapping[str, float]) -> float:
    """Passed tests / tests that apply.

    >>> round(passed_share({"text": 1.0, "table": None, "similarity": 0.95, "baseline": 0.0}, THRESHOLDS), 6)
    0.666667
    """
    applied = {name: value for name, value in values.items() if value is not None}
    return sum(value >= thresholds[name] - 1e-9 for name, value in applied.items()) / len(applied)


def _share(right: int, count: int) -> float | None:
    return right / count if count else None


def formula_accuracy(found: Sequence[str], gold: Sequence[str], *, official: bool = False) -> float | None:
    """Formulas aligned one to one by similarity; right ones / the larger number of formulas."""
    if not gold:
        return None
    pairs = _aligned(["".join(formula_tokens(f)) for f in found[:_MOST]], ["".join(formula_tokens(g)) for g in gold])
    right = sum(_same_formula(formula_tokens(found[i]), formula_tokens(gold[j]), official=official) for i, j in pairs)
    return right / max(len(found), len(gold))


def _aligned(found: Sequence[str], gold: Sequence[str]) -> list[tuple[int, int]]:
    if not found:
        return []
    alike = np.array([[Levenshtein.normalized_similarity(f[:2000], g[:2000]) for g in gold] for f in found])
    return list(hungarian_pairs(alike))


def _same_formula(found: tuple[str, ...], gold: tuple[str, ...], *, official: bool) -> bool:
    if found == gold:
        return True
    short, long = sorted((found, gold), key=len)
    if not short or (not official and len(short) < 0.8 * len(long)):
        return False
    rest = iter(long)
    return all(token in rest for token in short)


def table_match(found: str | None, gold: str | None) -> float | None:
    """1 if the longest tables' numbers agree: 0.9 of them, or 0.6 and 0.9 of those that occur once."""
    wanted = Counter(numbers(gold)) if gold is not None else Counter[str]()
    if not wanted:
        return None
    has = Counter(numbers(found)) if found is not None else Counter[str]()
    overlap = (has & wanted).total() / max(has.total(), wanted.total())
    unique = [number for number, count in wanted.items() if count == 1]
    hits = sum(number in has for number in unique) / len(unique) if unique else 0.0
    return float(overlap >= _HIGH or (overlap >= _MODERATE and hits >= _UNIQUE))


def title_accuracy(found: Sequence[str], gold: Sequence[str], *, official: bool = False) -> float | None:
    """Titles paired one to one where one is a part of the other; pairs / the larger number of titles."""
    if not gold:
        return None
    if not found:
        return 0.0
    fits = np.array([[_titles_fit(f, g, official=official) for g in gold] for f in found[:_MOST]], dtype=float)
    return len(hungarian_pairs(fits, at_least=1.0)) / max(len(found), len(gold))


def _titles_fit(found: str, gold: str, *, official: bool) -> bool:
    short, long = sorted((found, gold), key=len)
    return bool(short) and short in long and (official or len(short) >= 0.5 * len(long))


def citation_share(page: Source, reference: Reference) -> float | None:
    """Citations that resolve / citations of the reference: its keys, entries on the page, numbers of entries."""
    wanted = Counter(reference.source.citations())
    if not wanted:
        return None
    known = {*wanted, *reference.source.bibliography(), *page.bibliography()}
    cited = page.citations()
    valid = sum(_resolves(key, known, reference.bib_entries) for key in cited)
    return min(1.0, valid / max(wanted.total(), len(cited)))


def _resolves(key: str, known: Collection[str], entries: int | None) -> bool:
    return key in known or (key.isdecimal() and entries is not None and 1 <= int(key[:9]) <= entries)


def reference_share(found: Sequence[str], gold: Sequence[str]) -> float | None:
    """Labels that are referred to as often as on the page / its labels.

    >>> reference_share(["fig1", "fig1"], ["fig1", "fig1", "tab1"])
    0.5
    """
    has, wanted = Counter(found), Counter(gold)
    return _share(sum(has[label] == count for label, count in wanted.items()), len(wanted))


def static_probe(page: Source, reference: Reference) -> bool:
    r"""Whether nothing that can be seen without a compiler keeps the page from compiling and resolving.

    Braces balance, environments nest and close, unescaped $ pair, every \ref has its \label and every \cite its key on
    the page or in the reference.
    """
    gold = reference.source
    labels = {*page.labels(), *gold.labels(), *gold.references()}
    keys = {*page.bibliography(), *gold.bibliography(), *gold.citations()}
    return (
        page.braces_balance
        and page.environments_nest
        and page.dollars_pair()
        and labels.issuperset(page.references())
        and all(_resolves(key, keys, reference.bib_entries) for key in page.citations())
    )
