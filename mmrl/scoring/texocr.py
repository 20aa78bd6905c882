"""TexOCR's nine tests of a transcribed page. Pure, but for compiling, which the caller does.

Each test is a value from 0 to 1, or None where the reference page has nothing to test, and passes from a threshold on.
The paper gives the tests and no number for them: THRESHOLDS and LIMITS are ours, and options of the rewards.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from mmrl.data.sample import Sample
from mmrl.errors import ConfigError, RewardError, did_you_mean
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
LIMITS = {"table": 0.9, "table_if_unique": 0.6, "unique": 0.9, "formula_part": 0.8, "title_part": 0.5}
"""Within the tests: how much of a table's numbers must agree; how much will do, if so many of those that occur once are
found; from which share of the longer one on a part of a formula (its tokens) or title (its characters) counts."""

_MOST = 300


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


def check_shares(given: Mapping[str, float] | None, known: Collection[str], *, option: str) -> None:
    """For `preflight`: ConfigError for a name that no test has, or a number that is no share."""
    for name, value in (given or {}).items():
        if name not in known:
            raise ConfigError(
                f"{option}.{name} belongs to no test{did_you_mean(name, known)}; known: {', '.join(known)}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ConfigError(f"{option}.{name} is {value!r}, not a number from 0 to 1")


def limits_of(given: Mapping[str, float] | None, *, official: bool) -> dict[str, float]:
    """LIMITS with those given. official: a part of a formula or title counts however short it is, as in the paper."""
    any_part = {"formula_part": 0.0, "title_part": 0.0} if official else {}
    return {**LIMITS, **any_part, **(given or {})}


def page_values(text: str, reference: Reference, limits: Mapping[str, float] = LIMITS) -> dict[str, float | None]:
    """The value of every test but `compiles`."""
    page = Source(text)
    gold = reference.source
    flat = " ".join(page.text.split())
    return {
        "text": _share(sum(a in flat for a in reference.anchors), len(reference.anchors)),
        "formulas": formula_accuracy(page.formulas(), gold.formulas(), part=limits["formula_part"]),
        "table": table_match(page.longest_table(), gold.longest_table(), limits),
        "sections": title_accuracy(page.titles(), gold.titles(), part=limits["title_part"]),
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


def formula_accuracy(
    found: Sequence[str], gold: Sequence[str], *, part: float = LIMITS["formula_part"]
) -> float | None:
    """Formulas aligned one to one by similarity; right ones / the larger number of formulas.

    part: the share of the longer one's tokens that the other one, if it is an ordered part of it, must have.
    """
    if not gold:
        return None
    pairs = _aligned(["".join(formula_tokens(f)) for f in found[:_MOST]], ["".join(formula_tokens(g)) for g in gold])
    right = sum(_same_formula(formula_tokens(found[i]), formula_tokens(gold[j]), part=part) for i, j in pairs)
    return right / max(len(found), len(gold))


def _aligned(found: Sequence[str], gold: Sequence[str]) -> list[tuple[int, int]]:
    if not found:
        return []
    alike = np.array([[Levenshtein.normalized_similarity(f[:2000], g[:2000]) for g in gold] for f in found])
    return list(hungarian_pairs(alike))


def _same_formula(found: tuple[str, ...], gold: tuple[str, ...], *, part: float) -> bool:
    if found == gold:
        return True
    short, long = sorted((found, gold), key=len)
    if not short or len(short) < part * len(long):
        return False
    rest = iter(long)
    return all(token in rest for token in short)


def table_match(found: str | None, gold: str | None, limits: Mapping[str, float] = LIMITS) -> float | None:
    """1 if the longest tables' numbers agree: enough of them, or fewer and enough of those that occur once."""
    wanted = Counter(numbers(gold)) if gold is not None else Counter[str]()
    if not wanted:
        return None
    has = Counter(numbers(found)) if found is not None else Counter[str]()
    overlap = (has & wanted).total() / max(has.total(), wanted.total())
    unique = [number for number, count in wanted.items() if count == 1]
    hits = sum(number in has for number in unique) / len(unique) if unique else 0.0
    by_unique = overlap >= limits["table_if_unique"] and hits >= limits["unique"]
    return float(overlap >= limits["table"] or by_unique)


def title_accuracy(found: Sequence[str], gold: Sequence[str], *, part: float = LIMITS["title_part"]) -> float | None:
    """Titles paired one to one where one is a part of the other, at least that share; pairs / the larger number."""
    if not gold:
        return None
    if not found:
        return 0.0
    fits = np.array([[_titles_fit(f, g, part=part) for g in gold] for f in found[:_MOST]], dtype=float)
    return len(hungarian_pairs(fits, at_least=1.0)) / max(len(found), len(gold))


def _titles_fit(found: str, gold: str, *, part: float) -> bool:
    short, long = sorted((found, gold), key=len)
    return bool(short) and short in long and len(short) >= part * len(long)


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
