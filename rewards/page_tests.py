"""Tests on the transcription of a page: texts present, absent and in order, cells, formulas, form (olmOCR).

Formula: passed tests / all tests; `macro`: the mean over the types of test of each type's share (`by`: of what stands
in this field of the tests, such as their file). The shares are logged.
Bounds: 0 to 1.
Answer: the page in Markdown or HTML, with or without front matter; a page of more than 100,000 characters passes no
test. The dataset's answer is a list of tests of olmOCR-Bench's form, `mmrl.scoring.page_tests` describes each type.
Space: none.
Unit: seconds (`time_limit_s`, of the browser).
Source: olmOCR 2. There a page shorter than the text that is sought passes if it is a part of that text, and formulas
match by the rule that `formula_match` describes: `official`. By default a shorter page does not, and formulas match by
MathML; `layout`: those that look alike in a browser match too. All formulas of a page take one call of the browser.
Example: 7 of 10 tests 0.7; 6 of 8 of one type and 1 of 2 of another: 0.7, macro 0.625.
"""

import functools
import itertools
import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from mmrl.data.sample import Sample
from mmrl.errors import RewardError
from mmrl.scoring.formula_layout import laid_out_alike, require_layout
from mmrl.scoring.gold import bad_answer
from mmrl.scoring.katex import mathml, require_katex, same_formula
from mmrl.scoring.page_tests import Math, Page, PageTest, read_test
from mmrl.scoring.page_text import split_front_matter
from mmrl.scoring.parse import extract_prediction
from mmrl.scoring.tables import MAX_TEXT

BOUNDS = (0.0, 1.0)
KNOWN_HACKS = {"options": "several pages in one pass the tests of each; order and absence alone speak against it"}


def preflight(options: Mapping[str, Any], timeout_s: float) -> None:
    if options["layout"] or options["official"]:
        require_layout("page_tests", options, timeout_s=timeout_s)
    else:
        require_katex("page_tests")


def score(
    completion: str,
    sample: Sample,
    *,
    macro: bool = False,
    by: str = "type",
    layout: bool = False,
    official: bool = False,
    time_limit_s: float = 8.0,
    allow_weak_sandbox: bool = False,
) -> dict[str, float]:
    """`macro`: types of test count alike, however many tests each has. `by`: the field that is the type here.

    `layout`: formulas that look alike match too. `official`: texts and formulas match as in olmOCR.
    """
    if not isinstance(sample.answer, list) or not sample.answer:
        raise bad_answer(sample, wanted="a list of tests")
    try:
        tests = _tests(json.dumps(sample.answer, sort_keys=True), by)
    except (ValueError, TypeError) as error:
        raise RewardError(f"{sample.where}: the answer holds a test that cannot be run: {error}") from error
    _, text = split_front_matter(extract_prediction(completion, answer="plain") or "")
    page = Page(text, official=official)
    rule = functools.partial(same_formula, contains=official)
    flags = [len(text) <= MAX_TEXT and test.passes(page, same_formula=rule) for _, test in tests]
    if (layout or official) and len(text) <= MAX_TEXT:
        failed = {test for (_, test), flag in zip(tests, flags, strict=True) if isinstance(test, Math) and not flag}
        alike = _by_layout(failed, page, official=official, time_limit_s=time_limit_s)
        flags = [flag or test in alike for (_, test), flag in zip(tests, flags, strict=True)]
    passed: dict[str, list[bool]] = defaultdict(list)
    for (kind, _), flag in zip(tests, flags, strict=True):
        passed[kind].append(flag)
    shares = {kind: sum(group) / len(group) for kind, group in passed.items()}
    reward = sum(shares.values()) / len(shares) if macro else sum(map(sum, passed.values())) / len(tests)
    return {"reward": reward, **shares}


def _by_layout(tests: Collection[Math], page: Page, *, official: bool, time_limit_s: float) -> set[Math]:
    """The tests that pass by how formulas look."""
    pairs = {test: [(found, test.math.strip()) for found in test.likely(page)] for test in tests}
    alike = laid_out_alike(itertools.chain(*pairs.values()), official=official, time_limit_s=time_limit_s)
    return {test for test, candidates in pairs.items() if not alike.isdisjoint(candidates)}


@functools.lru_cache(256)
def _tests(answer: str, by: str) -> tuple[tuple[str, PageTest], ...]:
    """Each test with its type, or what it has in the field `by`, which then is no field of the test itself."""
    tests = []
    for row in json.loads(answer):
        if not isinstance(row, dict):
            raise ValueError(f"{row!r} is no mapping")
        test = read_test(row if by == "type" else {key: value for key, value in row.items() if key != by})
        if isinstance(test, Math) and mathml(test.math.strip()) is None:
            raise ValueError(f"math: KaTeX does not render {test.math!r}")
        if not isinstance(row.get(by), str):
            raise ValueError(f"{row!r} has no text in the field {by!r}")
        tests.append((row[by], test))
    return tuple(tests)
