"""Tests on the transcription of a page: texts present, absent and in order, cells, formulas, form (olmOCR).

Formula: passed tests / all tests; `macro`: the mean over the types of test of each type's share.
Bounds: 0 to 1.
Answer: the page in Markdown or HTML, with or without front matter; a page of more than 100,000 characters passes no
test. The dataset's answer is a list of tests of olmOCR-Bench's form, `mmrl.scoring.page_tests` describes each type.
Space: none.
Source: olmOCR 2. There a page shorter than the text that is sought passes if it is a part of that text; here it does
not. Formulas are compared by MathML alone, without the layout in a browser.
Example: 7 of 10 tests 0.7; 6 of 8 of one type and 1 of 2 of another: 0.7, macro 0.625.
"""

import functools
import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.katex import mathml, require_katex, same_formula
from mmrl.scoring.page_tests import Math, Page, PageTest, read_test
from mmrl.scoring.page_text import split_front_matter
from mmrl.scoring.parse import extract_prediction
from mmrl.scoring.tables import MAX_TEXT

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {"options": "several pages in one pass the tests of each; order and absence alone speak against it"}


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    require_katex("page_tests")


def score(completion: str, sample: Sample, *, macro: bool = False) -> dict[str, float]:
    """`macro`: types of test count alike, however many tests each has. Returns each type's share too."""
    if not isinstance(sample.answer, list) or not sample.answer:
        raise bad_answer(sample, wanted="a list of tests")
    try:
        tests = _tests(json.dumps(sample.answer, sort_keys=True))
    except (ValueError, TypeError) as error:
        raise RewardError(f"{sample.where}: the answer holds a test that cannot be run: {error}") from error
    _, text = split_front_matter(extract_prediction(completion, answer="plain") or "")
    page = Page(text)
    passed: dict[str, list[bool]] = defaultdict(list)
    for kind, test in tests:
        passed[kind].append(len(text) <= MAX_TEXT and test.passes(page, same_formula=same_formula))
    shares = {kind: sum(flags) / len(flags) for kind, flags in passed.items()}
    reward = sum(shares.values()) / len(shares) if macro else sum(map(sum, passed.values())) / len(tests)
    return {"reward": reward, **shares}


@functools.lru_cache(256)
def _tests(answer: str) -> tuple[tuple[str, PageTest], ...]:
    tests = []
    for row in json.loads(answer):
        if not isinstance(row, dict):
            raise ValueError(f"{row!r} is no mapping")
        test = read_test(row)
        if isinstance(test, Math) and mathml(test.math.strip()) is None:
            raise ValueError(f"math: KaTeX does not render {test.math!r}")
        tests.append((row.get("type", ""), test))
    return tuple(tests)
